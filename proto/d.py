from p import *
from scipy.optimize import minimize
import pyarrow.csv as pc
def data(name):
    D='/work/shared/data/'+name; z=np.load(D+'/features.npz')
    t=pc.read_csv(D+'/answers.csv')
    a=cw.Answers.from_arrays(np.asarray(t['task']),np.asarray(t['worker']),np.asarray(t['label']))
    cl=list(z['classes']); to=np.array([list(a.classes).index(c) for c in cl])
    rows=a.tasks.astype(int)
    return a,z['X_train'].astype(float)[rows],to[z['y_train']][rows],z['X_test'].astype(float),to[z['y_test']]
def likelihood(W,a):
    C=a.n_classes
    u=np.full((a.n_tasks,C),1/C); T,_=W.posterior(u,None); return np.log(np.maximum(T,1e-300))  # up to constant per task
def stack(logf,logL,beta0,ridge=.0):
    M,n,C=logf.shape
    def obj(b):
        s=np.einsum('m,mnc->nc',b,logf); lz=logsumexp(s,1,keepdims=True); p=np.exp(s-lz)
        j=s+logL; lj=logsumexp(j,1,keepdims=True); q=np.exp(j-lj)
        v=-(lj-lz).sum(); g=-np.einsum('nc,mnc->m',q-p,logf)
        return v+ridge*((b-b.mean())**2).sum(), g+2*ridge*(b-b.mean())
    r=minimize(obj,beta0,jac=True,bounds=[(0,None)]*M,method='L-BFGS-B',options=dict(maxiter=30))
    return r.x,-r.fun
def run(views,views_t,experts,a,rounds=10,folds=10,seed=0,balanced=0,y=None,yt=None,prior='hierarchical',loo=False,verbose=False):
    rng=np.random.default_rng(seed); n=a.n_tasks; C=a.n_classes
    fold=rng.permutation(np.arange(n)%folds)
    W=ConfusionWorkers(a,prior,None); T=vote_shares(a); M=len(experts)
    beta=np.full(M,1/M/2)
    for r in range(rounds):
        W.prior=None; W.fit(T,T)
        L=np.empty((M,n,C))
        for m,(v,fit) in enumerate(experts):
            X=views[v]
            for k in range(folds): L[m,fold==k]=log_softmax(fit(X[fold!=k],T[fold!=k],X[fold==k]),axis=1)
        L=np.maximum(L,-50)
        logL=likelihood(W,a)
        beta,val=stack(L,logL,beta)
        f=np.exp(log_softmax(np.einsum('m,mnc->nc',beta,L),axis=1))
        T,ll=W.posterior(np.maximum(f,1e-12),None)
        if balanced:
            for _ in range(5): T=T*(1/C/T.mean(0))**balanced; T/=T.sum(1,keepdims=True)
        if verbose: print(r,round(ll/a.n_answers,4),beta.round(2),(T.argmax(1)==y).mean().round(3))
    Lt=np.array([np.maximum(log_softmax(fit(views[v],T,views_t[v]),axis=1),-50) for v,fit in experts])
    ft=np.exp(log_softmax(np.einsum('m,mnc->nc',beta,Lt),axis=1))
    return T,ft,ll/a.n_answers,beta,[(l.argmax(1)==yt).mean().round(3) for l in Lt]
G=lambda sh,own:(lambda X,T,Xq:gauss(X,T,sh,own,Xq))
if __name__=='__main__':
    for name in ('labelme','music'):
        a,X,y,Xt,yt=data(name)
        kinds=['sqrtpca64','stdpca64','rankpca64'] 
        V={};Vt={}
        for k in kinds: V[k],Vt[k]=prep(k,X,Xt)
        for lab,ex in (('lda',[(k,G(.1,0)) for k in kinds]),('qda',[(k,G(.2,.15)) for k in kinds]),('both',[(k,g) for k in kinds for g in (G(.1,0),G(.2,.15))])):
            for bal in (0,1):
                R=[]
                for s in range(2):
                    T,f,ll,b,each=run(V,Vt,ex,a,seed=s,balanced=bal,y=y,yt=yt)
                    R.append(((f.argmax(1)==yt).mean(),(T.argmax(1)==y).mean(),ece(f,yt),ll))
                print(name,lab,bal,np.mean(R,0).round(4),b.round(2),each,flush=True)
