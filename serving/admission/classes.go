package admission

import (
	"slices"

	"gearshift/router/queue"
	"gearshift/serving/config"
)

// oneClass is what there is without classes.
const oneClass = "default"

// classes are the priority classes of requests. Each has its index for as long as the server runs:
// one that the configuration lists no more gets no new requests, and what waits of it
// keeps its priority and share. It is replaced as a whole.
type classes struct {
	all    []queue.Class // by index
	listed []int         // those that the configuration lists, in its order; at least one
	named  bool          // by the configuration, so that requests may name them
}

// with returns the classes once the configuration lists these classes.
func (k *classes) with(list []config.Class) *classes {
	next := &classes{all: slices.Clone(k.all), named: len(list) > 0}
	if !next.named {
		list = []config.Class{{Name: oneClass}}
	}
	for _, c := range list {
		at := slices.IndexFunc(next.all, func(known queue.Class) bool { return known.Name == c.Name })
		if at < 0 {
			at = len(next.all)
			next.all = append(next.all, queue.Class{})
		}
		next.all[at] = queue.Class(c)
		next.listed = append(next.listed, at)
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
