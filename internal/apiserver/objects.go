package apiserver

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/testing"
)

// Namespace holds all objects.
const Namespace = "default"

var (
	pods  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	pools = schema.GroupVersionResource{Group: "inference.networking.k8s.io", Version: "v1", Resource: "inferencepools"}
	crds  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	roles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	binds = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
)

// Cluster creates pods and pools for a test, in a real API server or in client-go's fake. No kubelet runs them.
type Cluster struct {
	// Router is a router's client, which may only read.
	Router dynamic.Interface

	admin dynamic.Interface
	real  bool

	watched map[string]chan struct{} // of a fake, by resource: closed once it is watched
}

// Fake returns a cluster in this process.
func Fake() *Cluster {
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{pods: "PodList", pools: "InferencePoolList"})
	c := &Cluster{Router: client, admin: client, watched: map[string]chan struct{}{"pods": make(chan struct{}), "inferencepools": make(chan struct{})}}
	once := map[string]*sync.Once{"pods": {}, "inferencepools": {}}
	client.PrependWatchReactor("*", func(action testing.Action) (bool, watch.Interface, error) {
		of := action.GetResource()
		w, err := client.Tracker().Watch(of, action.GetNamespace())
		once[of.Resource].Do(func() { close(c.watched[of.Resource]) })
		return true, w, err
	})
	return c
}

// Watched waits until the resource is watched. A fake replays no earlier events, unlike a real server.
func (c *Cluster) Watched(ctx context.Context, resource string) error {
	if c.real {
		return nil
	}
	select {
	case <-c.watched[resource]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Real returns a cluster of a running API server, with the kind InferencePool and a role for the router.
func Real(ctx context.Context, s *Server) (*Cluster, error) {
	admin, err := dynamic.NewForConfig(s.Admin)
	if err != nil {
		return nil, err
	}
	router, err := dynamic.NewForConfig(s.Router)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Router: router, admin: admin, real: true}
	for _, x := range []struct {
		of     schema.GroupVersionResource
		space  string
		object map[string]any
	}{
		{crds, "", poolKind()},
		{roles, Namespace, map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "router"},
			"rules": []any{
				map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "verbs": []any{"list", "watch"}},
				map[string]any{"apiGroups": []any{"inference.networking.k8s.io"}, "resources": []any{"inferencepools"}, "verbs": []any{"list", "watch"}},
			},
		}},
		{binds, Namespace, map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "router"},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "router"},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "router"}},
		}},
	} {
		if _, err := admin.Resource(x.of).Namespace(x.space).Create(ctx, &unstructured.Unstructured{Object: x.object}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("cannot make %s: %w", x.of.Resource, err)
		}
	}
	for { // a kind is served a moment after it is defined
		_, err := admin.Resource(pools).Namespace(Namespace).List(ctx, metav1.ListOptions{})
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// poolKind returns the part of InferencePool's definition that the tests use.
func poolKind() map[string]any {
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name":        "inferencepools.inference.networking.k8s.io",
			"annotations": map[string]any{"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api-inference-extension/pull/1173"},
		},
		"spec": map[string]any{
			"group": pools.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": "InferencePool", "listKind": "InferencePoolList", "plural": "inferencepools", "singular": "inferencepool"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}
}

// AddPool creates an InferencePool, or replaces it.
func (c *Cluster) AddPool(ctx context.Context, name string, match map[string]string, ports ...int) error {
	labels, list := map[string]any{}, []any{}
	for key, value := range match {
		labels[key] = value
	}
	for _, port := range ports {
		list = append(list, map[string]any{"number": int64(port)})
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": map[string]any{"name": name, "namespace": Namespace},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "targetPorts": list},
	}}
	client := c.admin.Resource(pools).Namespace(Namespace)
	if old, err := client.Get(ctx, name, metav1.GetOptions{}); err == nil {
		u.SetResourceVersion(old.GetResourceVersion())
		_, err = client.Update(ctx, u, metav1.UpdateOptions{})
		return err
	}
	_, err := client.Create(ctx, u, metav1.CreateOptions{})
	return err
}

// RemovePool removes an InferencePool.
func (c *Cluster) RemovePool(ctx context.Context, name string) error {
	return c.admin.Resource(pools).Namespace(Namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// AddPod creates a pod on a node, without an address.
func (c *Cluster) AddPod(ctx context.Context, name string, labels map[string]string) error {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"spec": map[string]any{"nodeName": "node", "containers": []any{map[string]any{"name": "engine", "image": "engine"}}},
	}}
	u.SetName(name)
	u.SetNamespace(Namespace)
	u.SetLabels(labels)
	if !c.real {
		u.SetUID(types.UID(fmt.Sprint("uid-", name, "-", time.Now().UnixNano())))
	}
	_, err := c.admin.Resource(pods).Namespace(Namespace).Create(ctx, u, metav1.CreateOptions{})
	return err
}

// SetPod sets a pod's address and readiness.
func (c *Cluster) SetPod(ctx context.Context, name, ip string, ready bool) error {
	return c.setStatus(ctx, name, "Running", ip, ready)
}

// FailPod ends the containers of a pod for good.
func (c *Cluster) FailPod(ctx context.Context, name, ip string) error {
	return c.setStatus(ctx, name, "Failed", ip, false)
}

func (c *Cluster) setStatus(ctx context.Context, name, phase, ip string, ready bool) error {
	status := "False"
	if ready {
		status = "True"
	}
	u, err := c.admin.Resource(pods).Namespace(Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	u.Object["status"] = map[string]any{
		"phase": phase, "podIP": ip, "podIPs": []any{map[string]any{"ip": ip}},
		"conditions": []any{map[string]any{"type": "Ready", "status": status}},
	}
	client := c.admin.Resource(pods).Namespace(Namespace)
	if c.real {
		_, err = client.UpdateStatus(ctx, u, metav1.UpdateOptions{})
	} else {
		_, err = client.Update(ctx, u, metav1.UpdateOptions{})
	}
	return err
}

// EndPod begins a pod's graceful end: it has a deletion time, and stays ready.
func (c *Cluster) EndPod(ctx context.Context, name string) error {
	client := c.admin.Resource(pods).Namespace(Namespace)
	if c.real {
		grace := int64(30)
		return client.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
	}
	u, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	u.SetDeletionTimestamp(&now)
	_, err = client.Update(ctx, u, metav1.UpdateOptions{})
	return err
}

// RemovePod removes a pod at once.
func (c *Cluster) RemovePod(ctx context.Context, name string) error {
	grace := int64(0)
	return c.admin.Resource(pods).Namespace(Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
}
