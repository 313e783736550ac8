from g import *
acc=lambda p,q: round((np.asarray(p)==np.asarray(q)).mean(),4)
which=sys.argv[1]
if which=='cifar':
    z=np.load('/work/shared/data/cifar10n/labels.npz'); X=np.load('/work/shared/data/cifar10n/features_first10k.npz')['X'].astype(float)
    w,l,y=z['workers'][:10000],z['labels'][:10000],z['y'][:10000]; tr=np.arange(8000); te=np.arange(8000,10000)
    a=cw.Answers.from_arrays(np.repeat(tr,3),w[tr].ravel(),l[tr].ravel()); print(a,w.shape)
    kinds=['sqrtpca128','stdpca128','rankpca128','pca256'][-1:]+['stdpca256','rank']
    ex={'lda':[(k,G(.1,0)) for k in kinds],'qda':[(k,G(.2,.15)) for k in kinds]}
    ex['both']=sum(ex.values(),[])
    run_all(a,X[tr],y[tr],X[te],y[te],kinds,ex,acc,folds=5,loo=1,rounds=6)
    oh=np.eye(10)[y]
    for k in kinds:
        P,Q=prep(k,X[tr],X[te]); print('ceil',k,[acc(y[te],g(P,oh[tr],Q).argmax(1)) for g in (G(.1,0),G(.2,.15),G(.2,.5),logit)])
else:
    a,X,y,Xt,yt=data(which)
    kinds=['sqrtpca64','stdpca64','rankpca64']
    ex={'logit':[(k,logit) for k in kinds],'all':[(k,g) for k in kinds for g in (G(.1,0),G(.2,.15),logit)]}
    for kw in (dict(loo=1),dict(loo=1,balanced=1)): run_all(a,X,y,Xt,yt,kinds,ex,acc,folds=5,rounds=8,**kw)
