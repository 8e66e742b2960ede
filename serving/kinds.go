package serving

import (
	"slices"

	"gearshift/router/queue"
	"gearshift/serving/config"
)

// oneClass is what there is without classes.
const oneClass = "default"

// kinds are the classes of requests. Each has its index for as long as the server runs:
// one that the configuration lists no more gets no new requests, and what waits of it
// keeps its priority and share. It is replaced as a whole.
type kinds struct {
	all    []queue.Class // by index
	listed []int         // those that the configuration lists, in its order; at least one
	named  bool          // by the configuration, so that requests may name them
}

// with is the kinds once the configuration lists these classes.
func (k *kinds) with(classes []config.Class) *kinds {
	next := &kinds{all: slices.Clone(k.all), named: len(classes) > 0}
	if !next.named {
		classes = []config.Class{{Name: oneClass}}
	}
	for _, c := range classes {
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
func (k *kinds) find(name string) (class int, ok bool) {
	for _, i := range k.listed {
		if k.all[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

// names are those of the classes that are listed.
func (k *kinds) names() []string {
	list := make([]string, len(k.listed))
	for i, class := range k.listed {
		list[i] = k.all[class].Name
	}
	return list
}

// class is the name of the class with the index.
func (l *line) class(i int) string { return l.kinds.Load().all[i].Name }
