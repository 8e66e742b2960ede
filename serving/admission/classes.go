package admission

import (
	"slices"

	"gearshift/router/fleet"
	"gearshift/router/queue"
	"gearshift/serving/config"
)

// oneClass is what there is without classes.
const oneClass = "default"

// classes are the priority classes of requests. Each has its index for as long as the server runs:
// one that the configuration lists no more gets no new requests, and what waits of it
// keeps its priority and share. It is replaced as a whole.
type classes struct {
	all    []queue.Class  // by index
	first  []*fleet.First // by index; nil where the policy chooses at any load
	listed []int          // those that the configuration lists, in its order; at least one
	byTask []int          // the class of a task's requests that name none
	named  bool           // by the configuration, so that requests may name them
}

// with returns the classes of requests to the fleet once the configuration lists these classes.
func (k *classes) with(t *fleet.Table, list []config.Class) *classes {
	next := &classes{all: slices.Clone(k.all), first: make([]*fleet.First, len(k.all)), named: len(list) > 0}
	if !next.named {
		list = []config.Class{{Name: oneClass}}
	}
	for i := range list {
		c := &list[i]
		at := slices.IndexFunc(next.all, func(known queue.Class) bool { return known.Name == c.Name })
		if at < 0 {
			at = len(next.all)
			next.all, next.first = append(next.all, queue.Class{}), append(next.first, nil)
		}
		next.all[at], next.first[at] = c.Waits(), c.In(t)
		next.listed = append(next.listed, at)
	}
	for i := range t.Tasks {
		next.byTask = append(next.byTask, next.listed[config.OfTask(list, t.Tasks[i].Name)])
	}
	return next
}

// find is the index of a class that is listed.
func (k *classes) find(name string) (class int, ok bool) {
	for _, i := range k.listed {
		if k.all[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

// names are those of the classes that are listed.
func (k *classes) names() []string {
	list := make([]string, len(k.listed))
	for i, class := range k.listed {
		list[i] = k.all[class].Name
	}
	return list
}
