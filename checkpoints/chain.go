package checkpoints

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gearshift/checkpoints/onnxfile"
	"gearshift/router/nn"
)

// understood ends the errors of a graph that makes no policy.
const understood = "understood is a chain of dense layers with ReLU between them, in float32: Gemm, MatMul with or without Add, Relu, Flatten, Identity and Constant"

// oldestOpset is the first version of the operators in which Gemm and Add
// broadcast as they do today.
const oldestOpset = 7

// The largest networks that are read. The number of sizes is what
// [nn.MLP.UnmarshalBinary] takes.
const (
	maxParameters = 1 << 24
	maxLayers     = 63
)

// chain follows a value from the graph's input through its nodes.
type chain struct {
	tensors    map[string]*tensor // constants, by the name of their value
	made       map[string]bool    // the names of all values so far
	at         string             // the value that the next node takes
	rank       int                // of that value; 0: not known
	width      int                // of the input; 0: not known
	layers     []layer
	parameters int
	rectified  bool // the last layer's outputs went through a ReLU
}

// layer is a dense layer, its weights row-major with shape (in, out).
type layer struct {
	in, out       int
	weights, bias []float32 // no bias: none so far
}

// network reads the graph as a network.
func (f *onnxModel) network() (*nn.MLP, error) {
	c, err := f.begin()
	if err != nil {
		return nil, err
	}
	for _, n := range f.nodes {
		if err := c.follow(n); err != nil {
			return nil, fmt.Errorf("%s: %w", n.title(), err)
		}
	}
	switch last := f.outputs[0].Name; {
	case c.at != last:
		return nil, fmt.Errorf("the output %.60q is not the end of the chain, which is %.60q", last, c.at)
	case len(c.layers) == 0:
		return nil, errors.New("it has no layer")
	case c.rectified:
		return nil, errors.New("its last layer goes through a Relu, which would hide the order of low values")
	}
	return c.assemble()
}

// begin checks what the graph is given and what it gives, and stands at its input.
func (f *onnxModel) begin() (*chain, error) {
	c := &chain{tensors: map[string]*tensor{}, made: map[string]bool{}}
	for _, t := range f.tensors {
		if err := c.make(t.name); err != nil {
			return nil, err
		}
		c.tensors[t.name] = t
	}
	// Old files list the weights among the inputs.
	inputs := slices.DeleteFunc(slices.Clone(f.inputs), func(v onnxfile.Value) bool { return c.tensors[v.Name] != nil })
	switch {
	case f.functions:
		return nil, errors.New("it defines operators of its own (functions)")
	case f.opset < oldestOpset:
		return nil, fmt.Errorf("its operators are of opset %d; opset %d or newer is understood", f.opset, oldestOpset)
	case len(inputs) != 1 || len(f.outputs) != 1:
		return nil, fmt.Errorf("it has %d inputs and %d outputs, not one of each", len(inputs), len(f.outputs))
	}
	input := inputs[0]
	if input.Kind != 0 && input.Kind != float32Type {
		return nil, fmt.Errorf("its input %.60q is %s, not float32", input.Name, typeName(input.Kind))
	}
	c.at, c.rank, c.width = input.Name, len(input.Dims), width(input.Dims)
	return c, c.make(input.Name)
}

// width is how many numbers a row of a value of the shape holds; 0 if that is not fixed.
func width(shape []int64) int {
	if len(shape) == 0 {
		return 0
	}
	width := int64(1)
	for _, d := range shape[1:] {
		if d <= 0 || d > maxParameters/width {
			return 0
		}
		width *= d
	}
	return int(width)
}

// make notes that there is a value of the name. Each is made once.
func (c *chain) make(name string) error {
	if c.made[name] {
		return fmt.Errorf("the value %.60q is made twice", name)
	}
	c.made[name] = true
	return nil
}

// title names the node, or its output if it has no name, and its operator.
func (n *node) title() string {
	name := n.name
	if name == "" && len(n.outputs) > 0 {
		name = n.outputs[0]
	}
	operator := fmt.Sprintf("%.60q", n.operator()) // escaped: it comes from outside
	return fmt.Sprintf("node %.60q (%s)", name, operator[1:len(operator)-1])
}

// operator is the node's, with the domain if it is not ONNX's own.
func (n *node) operator() string {
	if standard(n.domain) {
		return n.op
	}
	return n.domain + "." + n.op
}

// follow takes one node.
func (c *chain) follow(n *node) error {
	if len(n.outputs) != 1 {
		return fmt.Errorf("it has %d outputs, not one", len(n.outputs))
	}
	out := n.outputs[0]
	if err := c.make(out); err != nil {
		return err
	}
	step, ok := map[string]func(*node) error{
		"Gemm": c.gemm, "MatMul": c.matmul, "Add": c.add, "Relu": c.relu, "Flatten": c.flatten, "Identity": c.identity,
	}[n.operator()]
	switch {
	case n.operator() == "Constant":
		return c.constant(n)
	case !ok:
		return errors.New("this operator is not understood")
	case n.op == "Identity" && len(n.inputs) == 1 && c.tensors[n.inputs[0]] != nil:
		c.tensors[out] = c.tensors[n.inputs[0]]
		return nil
	case !slices.Contains(n.inputs, c.at):
		return fmt.Errorf("it does not take %.60q, the value before it: the graph branches", c.at)
	}
	if err := step(n); err != nil {
		return err
	}
	c.at = out
	return nil
}

// takes checks how many inputs a node has, and that the chain's value is the
// first of them.
func (c *chain) takes(n *node, least, most int) error {
	switch {
	case len(n.inputs) < least || len(n.inputs) > most:
		return fmt.Errorf("it has %d inputs", len(n.inputs))
	case n.inputs[0] != c.at:
		return fmt.Errorf("it takes %.60q, the value before it, as its weights", c.at)
	}
	return nil
}

// plain refuses attributes, which the operator does not have.
func (n *node) plain() error {
	if len(n.attributes) > 0 {
		return fmt.Errorf("it has the attribute %.60q, which is not understood", n.attributes[0].name)
	}
	return nil
}

func (c *chain) constant(n *node) error {
	if len(n.attributes) != 1 || n.attributes[0].name != "value" || n.attributes[0].tensor == nil {
		return errors.New("it has no attribute \"value\" alone, a tensor")
	}
	c.tensors[n.outputs[0]] = n.attributes[0].tensor
	return nil
}

func (c *chain) identity(n *node) error { return cmp.Or(c.takes(n, 1, 1), n.plain()) }

func (c *chain) flatten(n *node) error {
	for _, a := range n.attributes {
		if a.name != "axis" || a.whole != 1 {
			return fmt.Errorf("it has the attribute %.60q = %d; the axis is 1", a.name, a.whole)
		}
	}
	c.rank = 2
	return c.takes(n, 1, 1)
}

func (c *chain) relu(n *node) error {
	if len(c.layers) == 0 {
		return errors.New("it comes before the first layer")
	}
	c.rectified = true
	return cmp.Or(c.takes(n, 1, 1), n.plain())
}

// gemm is a layer with its bias.
func (c *chain) gemm(n *node) error {
	transposed := false
	for _, a := range n.attributes {
		switch {
		case a.name == "alpha" && a.number == 1, a.name == "beta" && a.number == 1, a.name == "transA" && a.whole == 0:
		case a.name == "transB" && (a.whole == 0 || a.whole == 1):
			transposed = a.whole == 1
		default:
			return fmt.Errorf("it has an attribute %.60q that is not understood: alpha and beta are 1, transA is 0, transB 0 or 1", a.name)
		}
	}
	if err := c.takes(n, 2, 3); err != nil {
		return err
	}
	if err := c.dense(n.inputs[1], transposed); err != nil {
		return err
	}
	if len(n.inputs) == 3 && n.inputs[2] != "" {
		return c.bias(n.inputs[2])
	}
	return nil
}

// matmul is a layer without a bias, which may follow.
func (c *chain) matmul(n *node) error {
	if err := cmp.Or(c.takes(n, 2, 2), n.plain()); err != nil {
		return err
	}
	return c.dense(n.inputs[1], false)
}

// add is the bias of the layer before it, on either side.
func (c *chain) add(n *node) error {
	if err := n.plain(); err != nil {
		return err
	}
	switch {
	case len(n.inputs) != 2:
		return fmt.Errorf("it has %d inputs", len(n.inputs))
	case len(c.layers) == 0 || c.rectified || c.layers[len(c.layers)-1].bias != nil:
		return errors.New("it does not follow a layer without a bias")
	case n.inputs[0] == c.at:
		return c.bias(n.inputs[1])
	}
	return c.bias(n.inputs[0])
}

// dense adds a layer of the weights.
func (c *chain) dense(name string, transposed bool) error {
	switch {
	case len(c.layers) > 0 && !c.rectified:
		return errors.New("it follows another layer with no Relu between them")
	case len(c.layers) == maxLayers:
		return fmt.Errorf("it is one layer more than %d", maxLayers)
	case c.rank != 0 && c.rank != 2:
		return fmt.Errorf("it takes a value of %d dimensions; a Flatten before it makes them 2", c.rank)
	}
	t, weights, err := c.constantOf("weights", name)
	if err != nil {
		return err
	}
	if len(t.dims) != 2 {
		return fmt.Errorf("its weights %.60q have %d dimensions, not 2", name, len(t.dims))
	}
	l := layer{in: int(t.dims[0]), out: int(t.dims[1]), weights: weights}
	if transposed {
		l = layer{in: l.out, out: l.in, weights: transpose(weights, l.in, l.out)}
	}
	before := c.width
	if i := len(c.layers) - 1; i >= 0 {
		before = c.layers[i].out
	}
	if before != 0 && before != l.in {
		return fmt.Errorf("its weights %.60q take %d numbers, the value before it has %d", name, l.in, before)
	}
	c.parameters += len(weights) + l.out
	c.layers, c.rectified, c.rank = append(c.layers, l), false, 2
	return nil
}

// bias gives the last layer its bias.
func (c *chain) bias(name string) error {
	t, bias, err := c.constantOf("bias", name)
	if err != nil {
		return err
	}
	l := &c.layers[len(c.layers)-1]
	// A row, however many dimensions of one stand before it.
	if len(bias) != l.out || len(t.dims) > 2 || len(t.dims) > 0 && t.dims[len(t.dims)-1] != int64(l.out) {
		return fmt.Errorf("its bias %.60q has the shape %v, its layer %d outputs", name, t.dims, l.out)
	}
	l.bias = bias
	return nil
}

// constantOf is a constant and its values.
func (c *chain) constantOf(role, name string) (*tensor, []float32, error) {
	t := c.tensors[name]
	if t == nil {
		return nil, nil, fmt.Errorf("its %s %.60q are no constant of the file", role, name)
	}
	values, err := t.values(int64(maxParameters - c.parameters))
	if err != nil {
		return nil, nil, fmt.Errorf("its %s %.60q %w", role, name, err)
	}
	return t, values, nil
}

// transpose makes a row-major (columns, rows) of a row-major (rows, columns).
func transpose(v []float32, rows, columns int) []float32 {
	out := make([]float32, len(v))
	for r := range rows {
		for c := range columns {
			out[c*rows+r] = v[r*columns+c]
		}
	}
	return out
}

// assemble makes the network of the layers.
func (c *chain) assemble() (*nn.MLP, error) {
	sizes := []int{c.layers[0].in}
	for _, l := range c.layers {
		sizes = append(sizes, l.out)
	}
	n, err := nn.New(sizes...)
	if err != nil {
		return nil, err
	}
	for i, l := range c.layers {
		copy(n.Weights[i], l.weights)
		copy(n.Biases[i], l.bias)
	}
	return n, nil
}
