package discovery

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// attempts follows whether an API server answers one informer, whose calls come one at a time. A client retries some
// failures without a report, such as refused connections.
type attempts struct {
	source   *kubernetes
	resource string
	// listFails and watchFails are of the last attempts.
	listFails, watchFails bool
}

// listed records the outcome of a list.
func (a *attempts) listed(ctx context.Context, err error) {
	if ctx.Err() != nil || outdated(err) {
		return
	}
	a.listFails = err != nil
	a.report(err)
}

// watched records the outcome of the begin of a watch, which comes after a list or lists the objects itself.
func (a *attempts) watched(ctx context.Context, err error) {
	if ctx.Err() != nil || outdated(err) || apierrors.IsInvalid(err) { // a server that cannot list by a watch is asked to list
		return
	}
	if a.watchFails = err != nil; err == nil {
		a.listFails = false
	}
	a.report(err)
}

// outdated reports whether the server no longer has the version that was asked for, after which the objects are listed.
func outdated(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// report logs when the server stops answering, and when it answers again.
func (a *attempts) report(err error) {
	k, fails := a.source, a.listFails || a.watchFails
	if !k.note(a.resource, fails) {
		return
	}
	if fails {
		k.log.Warn("cannot watch Kubernetes: keeping the known engines", "resource", a.resource, "namespace", k.namespace, "error", err)
	} else {
		k.log.Info("Kubernetes can be watched again", "resource", a.resource, "namespace", k.namespace)
	}
}
