package wire

// Inputs are the modalities of one input to classify, which are members of its body.
type Inputs struct{ All Modalities }

// member is a modality of an input, and where its value is.
type member struct {
	span
	kind Modalities
}

// Inputs reads the modalities of an input to classify.
func (r *Request) Inputs() (in Inputs) {
	r.inputs = nil
	r.seen.members(r.Body, func(key []byte, start, end int) bool {
		name := string(key)
		if name == "input" {
			name = "text"
		}
		if kind := ModalityNamed(name); kind != 0 && !empty(r.Body[start:end]) {
			in.All |= kind
			r.inputs = append(r.inputs, member{span{start, end}, kind})
		}
		return true
	})
	return in
}

// Effect is what the cut comes to for the input; false if nothing would be left of it.
func (in Inputs) Effect(c Cut) (Cut, bool) {
	c = Cut{Without: c.Without & in.All}
	return c, in.All&^c.Without != 0
}

// Used names what the cut leaves of the input, as in "image,audio".
func (in Inputs) Used(c Cut) (used string) {
	for _, name := range in.Names() {
		if ModalityNamed(name)&c.Without != 0 {
			continue
		}
		if used != "" {
			used += ","
		}
		used += name
	}
	return used
}

// Names are those of the modalities.
func (in Inputs) Names() (names []string) {
	for _, name := range append([]string{"text"}, modalityNames[:]...) {
		if ModalityNamed(name)&in.All != 0 {
			names = append(names, name)
		}
	}
	return names
}
