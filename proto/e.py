from d import *
from scipy.special import digamma
from crowdwise.truth.confusion import ConfusionWork
def logL_of(a,T,loo=False,dig=False,strength=4.):
    C=a.n_classes; Wn=a.n_workers
    N=np.zeros((Wn,C,C)); np.add.at(N,(a.worker,slice(None),a.label),T[a.task])
    pool=N.sum(0)+1e-9; pool/=pool.sum(1,keepdims=True)
    A=.02+.5*np.eye(C)+strength*pool
    num=N+A
    top=num[a.worker,:,a.label]; bot=num.sum(2)[a.worker]
    if loo: top=top-T[a.task]; bot=bot-T[a.task]
    e=digamma(top)-digamma(bot) if dig else np.log(top)-np.log(bot)
    out=np.zeros((a.n_tasks,C)); np.add.at(out,a.task,e); return out
def run2(views,views_t,experts,a,rounds=10,folds=10,seed=0,balanced=0,y=None,yt=None,loo=False,dig=False,strength=4.,init=None,power=1.):
    rng=np.random.default_rng(seed); n=a.n_tasks; C=a.n_classes
    fold=rng.permutation(np.arange(n)%folds); T=vote_shares(a) if init is None else init; M=len(experts)
    beta=np.full(M,1/M/2)
    for r in range(rounds):
        logL=logL_of(a,T,loo,dig,strength)
        L=np.empty((M,n,C))
        for m,(v,fit) in enumerate(experts):
            X=views[v]
            for k in range(folds): L[m,fold==k]=log_softmax(fit(X[fold!=k],T[fold!=k],X[fold==k]),axis=1)
        L=np.maximum(L,-50)
        beta,val=stack(L,logL,beta)
        s=np.einsum('m,mnc->nc',beta,L); s=log_softmax(s,axis=1)+logL; ll=logsumexp(s,1).sum()
        T=np.exp(log_softmax(s,axis=1))
        if balanced:
            for _ in range(5): T=T*(1/C/T.mean(0))**balanced; T/=T.sum(1,keepdims=True)
    Lt=np.array([np.maximum(log_softmax(fit(views[v],T,views_t[v]),axis=1),-50) for v,fit in experts])
    ft=np.exp(log_softmax(np.einsum('m,mnc->nc',beta,Lt),axis=1))
    return T,ft,ll/a.n_answers,beta,None
if __name__=='__main__':
    for name in ('music','labelme'):
        a,X,y,Xt,yt=data(name)
        kinds=['rankpca64'] if name=='music' else ['sqrtpca64']
        V={};Vt={}
        for k in kinds: V[k],Vt[k]=prep(k,X,Xt)
        for lab,kw in (('base',{}),('loo',dict(loo=True)),('dig',dict(dig=True)),('loodig',dict(loo=True,dig=True)),('s1',dict(strength=1)),('s12',dict(strength=12)),('s12loo',dict(strength=12,loo=True)),('r5',dict(rounds=5)),('r20',dict(rounds=20)),('loo r20',dict(loo=True,rounds=20))):
            for bal in (0,1):
                R=[]
                for s in range(3):
                    T,f,ll,b,each=run2(V,Vt,[(kinds[0],G(.2,.15))],a,seed=s,balanced=bal,y=y,yt=yt,**kw)
                    R.append(((f.argmax(1)==yt).mean(),(T.argmax(1)==y).mean(),ece(f,yt),ll))
                print(name,lab,bal,np.mean(R,0).round(4),b.round(2),flush=True)
