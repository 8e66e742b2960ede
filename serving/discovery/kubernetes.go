package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"gearshift/serving/discovery/settings"
)

var (
	pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	pools = schema.GroupVersionResource{Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools"}
)

// kubernetes is a [Source] that watches pods: those of an InferencePool, or those that the groups select.
type kubernetes struct {
	client    dynamic.Interface
	namespace string
	pool      string
	groups    []Group
	labels    settings.Labels
	log       *slog.Logger

	narrow bool // only pods of a pool or with labels that all groups share are watched, so each is meant for a slot
	absent bool // the missing pool was logged
	reach       // by resource
}

// newKubernetes returns a source that watches the configured cluster.
func newKubernetes(c *settings.Config, groups []Group, log *slog.Logger) (Source, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubernetes.Kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot reach Kubernetes: %w; want a pod's service account, or serving.discovery.kubernetes.kubeconfig", err)
	}
	namespace := c.Kubernetes.Namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("cannot find the namespace of the pods: %w; want serving.discovery.kubernetes.namespace", err)
		}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot reach Kubernetes: %w", err)
	}
	return Watching(client, namespace, c, groups, log), nil
}

// Watching returns a source that watches the pods of a namespace with the client.
func Watching(client dynamic.Interface, namespace string, c *settings.Config, groups []Group, log *slog.Logger) Source {
	return &kubernetes{
		client: client, namespace: namespace, pool: c.Kubernetes.Pool, groups: groups, labels: c.Labels, log: log,
		narrow: c.Kubernetes.Pool != "" || len(common(groups)) > 0,
	}
}

// Watch implements [Source]. While the API server does not answer, the known pods stay.
func (k *kubernetes) Watch(ctx context.Context, changed func([]Endpoint)) error {
	wake := make(chan struct{}, 1)
	var poolInformer *informer
	if k.pool != "" {
		var err error
		if poolInformer, err = k.inform(ctx, pools, wake, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", k.pool).String()
		}, nil); err != nil {
			return err
		}
		defer poolInformer.stop()
	}
	var podInformer *informer
	defer func() { podInformer.stop() }()
	selected, began, listed := "", false, false
	var ports []int
	signal(wake)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
		selector := labels.Set(common(k.groups)).String()
		if poolInformer != nil {
			if !poolInformer.HasSynced() {
				continue
			}
			var there bool
			if selector, ports, there = k.poolOf(poolInformer); !there {
				podInformer.stop()
				podInformer, began = nil, false
				k.note(pods.Resource, false) // they are not watched
				changed(nil)
				continue
			}
		}
		if !began || selector != selected {
			podInformer.stop()
			var err error
			if podInformer, err = k.inform(ctx, pods, wake, func(o *metav1.ListOptions) { o.LabelSelector = selector }, slim); err != nil {
				return err
			}
			selected, began, listed = selector, true, false
		}
		if podInformer.HasSynced() {
			if !listed {
				listed = true
				k.reportEmpty(podInformer, selector)
			}
			changed(k.endpoints(podInformer, ports))
		}
	}
}

// signal wakes the watch, unless it is about to wake.
func signal(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // a signal is pending
	}
}

// informer is a shared informer that runs until it is stopped.
type informer struct {
	cache.SharedIndexInformer
	cancel context.CancelFunc
	ended  chan struct{}
}

func (i *informer) stop() {
	if i != nil {
		i.cancel()
		<-i.ended
	}
}

// inform begins to watch the resources, and signals wake with each change.
func (k *kubernetes) inform(ctx context.Context, of schema.GroupVersionResource, wake chan<- struct{}, tweak func(*metav1.ListOptions), transform cache.TransformFunc) (*informer, error) {
	resource := k.client.Resource(of).Namespace(k.namespace)
	asked := &attempts{source: k, resource: of.Resource}
	shared := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			tweak(&o)
			list, err := resource.List(ctx, o)
			asked.listed(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			tweak(&o)
			w, err := resource.Watch(ctx, o)
			asked.watched(ctx, err)
			return w, err
		},
	}, k.client), &unstructured.Unstructured{}, 0, cache.Indexers{})
	if err := shared.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		k.log.Debug("a watch of Kubernetes has ended", "resource", of.Resource, "namespace", k.namespace, "error", err)
	}); err != nil {
		return nil, err
	}
	if transform != nil {
		if err := shared.SetTransform(transform); err != nil {
			return nil, err
		}
	}
	if _, err := shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { signal(wake) },
		UpdateFunc: func(_, _ any) { signal(wake) },
		DeleteFunc: func(any) { signal(wake) },
	}); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	i := &informer{shared, cancel, make(chan struct{})}
	go func() {
		defer close(i.ended)
		shared.RunWithContext(ctx)
	}()
	go func() { // an empty list has no events
		if cache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
			signal(wake)
		}
	}()
	return i, nil
}

// slim removes the unused parts of a pod.
func slim(object any) (any, error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	return podOf(u), nil
}

// pod holds the parts of a pod that are used.
type pod struct {
	metav1.ObjectMeta
	ip            string
	ready, failed bool
}

func podOf(u *unstructured.Unstructured) *pod {
	p := &pod{ObjectMeta: metav1.ObjectMeta{
		Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), Labels: u.GetLabels(),
		DeletionTimestamp: u.GetDeletionTimestamp(), ResourceVersion: u.GetResourceVersion(),
	}}
	p.ip, _, _ = unstructured.NestedString(u.Object, "status", "podIP")
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	p.failed = phase == "Failed" || phase == "Succeeded"
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
			p.ready = c["status"] == "True"
		}
	}
	return p
}

// endpoints lists the ports of pods that have an address and containers that have not ended.
func (k *kubernetes) endpoints(i *informer, ports []int) (list []Endpoint) {
	for _, object := range i.GetStore().List() {
		p, ok := object.(*pod)
		if !ok || p.ip == "" || p.failed {
			continue
		}
		e := *k.endpointOf(p)
		own := k.ports(&e, ports)
		if len(own) == 0 && (k.narrow || e.Variant != "" || e.Host != "") { // it is meant for the router, and its labels are wrong
			e.ID, e.Name, e.Address = string(p.UID), p.Name, p.ip
			list = append(list, e)
		}
		for _, port := range own {
			e.ID, e.Name, e.Port, e.Pooled = fmt.Sprint(p.UID, ":", port), p.Name, port, slices.Contains(ports, port)
			if len(own) > 1 {
				e.Name = fmt.Sprint(p.Name, ":", port)
			}
			e.Address = net.JoinHostPort(p.ip, strconv.Itoa(port))
			list = append(list, e)
		}
	}
	return list
}

// endpointOf returns what the pod's endpoints have in common.
func (k *kubernetes) endpointOf(p *pod) *Endpoint {
	e := &Endpoint{Labels: p.Labels, Variant: p.Labels[k.labels.Variant], Host: p.Labels[k.labels.Host], Ready: p.ready, Ending: p.DeletionTimestamp != nil}
	if e.Labels == nil {
		e.Labels = map[string]string{}
	}
	return e
}

// reportEmpty logs the groups that select none of the listed pods, which may be misspelt or not have begun.
func (k *kubernetes) reportEmpty(i *informer, selector string) {
	objects := i.GetStore().List()
	for _, g := range k.groups {
		found := slices.ContainsFunc(objects, func(object any) bool {
			p, ok := object.(*pod)
			return ok && g.selects(k.endpointOf(p))
		})
		if !found {
			k.log.Warn("no pod matches an entry of replicas", "entry", g.Name, "labels", g.labels()[0], "selector", selector, "namespace", k.namespace)
		}
	}
}

// ports returns the ports of the groups whose labels the endpoint has, and those of the pool for groups without one.
func (k *kubernetes) ports(e *Endpoint, pool []int) (list []int) {
	for i := range k.groups {
		g := &k.groups[i]
		if !g.selects(e) {
			continue
		}
		own := pool
		if g.Port > 0 {
			own = []int{g.Port}
		}
		for _, port := range own {
			if !slices.Contains(list, port) {
				list = append(list, port)
			}
		}
	}
	return list
}

// poolOf returns the selector and the ports of the pool, and whether it exists and can be used.
func (k *kubernetes) poolOf(i *informer) (selector string, ports []int, there bool) {
	object, exists, err := i.GetStore().GetByKey(k.namespace + "/" + k.pool)
	if err == nil && exists {
		selector, ports, err = readPool(object)
	} else if err == nil {
		err = errors.New("it does not exist")
	}
	if failed := err != nil; failed != k.absent {
		if k.absent = failed; failed {
			k.log.Warn("cannot use the InferencePool: it has no engines", "pool", k.pool, "namespace", k.namespace, "error", err)
		} else {
			k.log.Info("using the InferencePool", "pool", k.pool, "selector", selector, "ports", ports)
		}
	}
	return selector, ports, err == nil
}

// readPool reads an InferencePool.
func readPool(object any) (selector string, ports []int, err error) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return "", nil, fmt.Errorf("want an object of Kubernetes, got a %T", object)
	}
	match, _, err := unstructured.NestedStringMap(u.Object, "spec", "selector", "matchLabels")
	if err != nil || len(match) == 0 {
		return "", nil, errors.Join(errors.New("spec.selector.matchLabels: want labels"), err)
	}
	list, _, err := unstructured.NestedSlice(u.Object, "spec", "targetPorts")
	if err != nil {
		return "", nil, err
	}
	for _, item := range list {
		port, _ := item.(map[string]any)
		if n, ok := port["number"].(int64); ok {
			ports = append(ports, int(n))
		}
	}
	if len(ports) == 0 || len(ports) > 8 {
		return "", nil, fmt.Errorf("spec.targetPorts: want from 1 to 8 ports, found %d", len(ports))
	}
	return labels.Set(match).String(), ports, nil
}
