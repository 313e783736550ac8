import numpy as np, sys, time
sys.path.insert(0,'/work/wt-joint/src')
import crowdwise as cw
from crowdwise import datasets
from crowdwise.learn.em import ConfusionWorkers, soften, TEMPERATURES
from crowdwise.truth.base import vote_shares
from scipy.special import logsumexp, log_softmax
from scipy.stats import norm, rankdata

def prep(kind, Xtr, Xte):
    if 'sqrt' in kind: Xtr, Xte = [np.sign(x)*np.sqrt(np.abs(x)) for x in (Xtr,Xte)]
    if 'rank' in kind:
        from sklearn.preprocessing import QuantileTransformer
        q = QuantileTransformer(output_distribution='normal', n_quantiles=min(1000,len(Xtr))).fit(Xtr)
        Xtr, Xte = np.clip(q.transform(Xtr),-3,3), np.clip(q.transform(Xte),-3,3)
    m = Xtr.mean(0); Xtr, Xte = Xtr-m, Xte-m
    if 'std' in kind:
        s = Xtr.std(0); s[s==0]=1; Xtr, Xte = Xtr/s, Xte/s
    if 'pca' in kind:
        k = int(kind.split('pca')[1]);
        if k < Xtr.shape[1]:
            w, V = np.linalg.eigh(Xtr.T@Xtr); V = V[:, ::-1][:, :k]
            Xtr, Xte = Xtr@V, Xte@V
    return Xtr, Xte

def gauss(X, T, shrink, own, Xq):
    n = T.sum(0)+1e-9; mu = (T.T@X)/n[:,None]; d=X.shape[1]; N=n.sum()
    S = (X*T.sum(1)[:,None]).T@X - (mu*n[:,None]).T@mu; S/=N
    iso = np.eye(d)*np.trace(S)/d
    S = (1-shrink)*S+shrink*iso
    out = np.empty((len(Xq), len(n)))
    if own==0:
        W = np.linalg.solve(S, mu.T)
        return Xq@W - .5*(mu*W.T).sum(1) + np.log(n/N)
    for c in range(len(n)):
        Z = X*np.sqrt(T[:,c])[:,None]; Sc = Z.T@Z/n[c]-np.outer(mu[c],mu[c])
        Sc = (1-own)*S+own*((1-shrink)*Sc+shrink*np.eye(d)*np.trace(Sc)/d)
        L = np.linalg.cholesky(Sc); D = np.linalg.solve(L,(Xq-mu[c]).T)
        out[:,c] = -.5*(D**2).sum(0)-np.log(np.diag(L)).sum()+np.log(n[c]/N)
    return out

def joint(X, answers, shrink=.2, own=0, folds=5, rounds=10, seed=0, balanced=0, fit=None, prior='hierarchical', cal=True, Xte=None):
    rng=np.random.default_rng(seed); n=answers.n_tasks; C=answers.n_classes
    fold = rng.permutation(np.arange(n)%folds)
    W = ConfusionWorkers(answers, prior, None)
    T = vote_shares(answers)
    fit = fit or (lambda X,T,Xq: gauss(X,T,shrink,own,Xq))
    temp=1.
    for r in range(rounds):
        W.prior=None  # re-pooled each round
        W.fit(T,T)
        L = np.empty((n,C))
        for k in range(folds):
            L[fold==k] = fit(X[fold!=k], T[fold!=k], X[fold==k])
        f = np.maximum(np.exp(log_softmax(L,axis=1)),1e-12)
        if cal: temp = max(TEMPERATURES, key=lambda t: W.posterior(soften(f,t),None)[1])
        T, ll = W.posterior(soften(f,temp),None)
        if balanced:
            for _ in range(5):
                T = T*(1/C/T.mean(0))**balanced; T/=T.sum(1,keepdims=True)
    fte = None
    if Xte is not None:
        fte = soften(np.maximum(np.exp(log_softmax(fit(X,T,Xte),axis=1)),1e-12),temp)
    return T, fte, ll/answers.n_answers, temp

def ece(p,y,b=15):
    c=p.max(1); ok=p.argmax(1)==y; i=np.minimum((c*b).astype(int),b-1)
    return sum(abs(ok[i==k].mean()-c[i==k].mean())*(i==k).mean() for k in range(b) if (i==k).any())
