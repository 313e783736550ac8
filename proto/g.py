from e import *
from sklearn.metrics import f1_score
from sklearn.linear_model import LogisticRegression
import gzip
def product():
    D='/work/shared/data/product'; z=np.load(D+'/features.npz')
    t=pc.read_csv(D+'/answers.csv.gz'); print({k:z[k].shape for k in z}, t.schema)
    return t,z['X'].astype(float),z['y']
def run_all(a,X,y,Xt,yt,kinds,experts,score,**kw):
    V={};Vt={}
    for k in kinds: V[k],Vt[k]=prep(k,X,Xt)
    for lab,ex in experts.items():
        t0=time.process_time()
        T,f,ll,b,_=run2(V,Vt,ex,a,y=y,yt=yt,**kw)
        print(kw,lab,'test',score(yt,f.argmax(1)),'train',score(y,T.argmax(1)),'ece',ece(f,yt).round(4),'ll',round(ll,4),b.round(2),'s',round(time.process_time()-t0,1),flush=True)
def logit(X,T,Xq):
    from crowdwise.learn.logistic import fit_logistic,predict_logistic
    s=X.std(0)+1e-9
    c,_=fit_logistic(X/s,T,weight=None,ridge=1.,coef=None,solver='auto',max_iter=30); return np.log(predict_logistic(Xq/s,c)+1e-12)
if __name__=='__main__':
    t,X,y=product(); ids=np.asarray(t['task'])
    fold=np.random.default_rng(0).permutation(np.arange(len(y))%5)
    tr=np.flatnonzero(fold!=0); te=np.flatnonzero(fold==0)
    keep=np.isin(ids,tr)
    a=cw.Answers.from_arrays(ids[keep],np.asarray(t['worker'])[keep],np.asarray(t['label'])[keep]); print(a, a.classes)
    rows=a.tasks.astype(int)
    f1=lambda p,q: round(f1_score(p,q),4)
    kinds=['sqrt','std','rank']
    ex={'lda':[(k,G(.1,0)) for k in kinds],'qda':[(k,G(.2,.15)) for k in kinds],'qda6':[(k,G(.1,.6)) for k in kinds],'logit':[(k,logit) for k in kinds]}
    ex['all']=sum(ex.values(),[])
    for loo in (0,1): run_all(a,X[rows],y[rows],X[te],y[te],kinds,ex,f1,folds=5,loo=loo)
    run_all(a,X[rows],y[rows],X[te],y[te],kinds,ex,f1,folds=5,loo=1,balanced=1)
    oh=np.eye(2)[y]
    for k in kinds:
        P,Q=prep(k,X[tr],X[te])
        print('ceil',k,[f1(y[te],g(P,oh[tr],Q).argmax(1)) for g in (G(.1,0),G(.2,.15),G(.1,.6),logit)])
