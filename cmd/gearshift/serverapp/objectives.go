package serverapp

import (
	"sync"

	"gearshift/checkpoints"
)

// objectives are what the stored policies that were loaded are trained for, by name, except
// those of mean utility. A page may ask at any time.
type objectives struct {
	mu sync.Mutex // protects of
	of map[string]string
}

// loaded notes what a policy is trained for that may route from now on.
func (o *objectives) loaded(e checkpoints.Entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := e.Ref().String()
	if e.Meta.Objective == "" {
		delete(o.of, name) // another store may have had a policy of the name
		return
	}
	if o.of == nil {
		o.of = map[string]string{}
	}
	o.of[name] = e.Meta.Objective
}

func (o *objectives) objective(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[name]
}
