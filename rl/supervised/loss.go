package supervised

import (
	"math"

	"github.com/chewxy/hm"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"

	"gearshift/rl/fused"
)

// entropyOp is what rows of a batch contribute to the mean cross-entropy of the labels.
// Its inputs are the logits of each part, for the rows that have its modality, and the
// labels; the logits of a row are the sum of those of its parts.
type entropyOp struct {
	fused.Op
	graph *fused.Graph
	loss  *gorgonia.F32
	rows  [][]int   // of each part's logits: the batch's
	batch float64   // rows of the batch that these are of
	wrong []float32 // (rows, labels): the probability of each label, less 1 for the right one
	right int       // rows whose likeliest label is the right one, in the last run
}

func newEntropy(g *fused.Graph, rows [][]int, n, batch, labels int) *entropyOp {
	inputs := make([]hm.Type, len(rows), len(rows)+1)
	for i := range inputs {
		inputs[i] = fused.Matrix
	}
	op, loss := g.NewScalarOp("cross-entropy", append(inputs, fused.IntVector))
	return &entropyOp{Op: op, graph: g, loss: loss, rows: rows, batch: float64(batch), wrong: make([]float32, n*labels)}
}

// Do computes the loss, and what its gradient is made of on the way.
func (o *entropyOp) Do(v ...gorgonia.Value) (gorgonia.Value, error) {
	labels := v[len(o.rows)].(*tensor.Dense).Int32s()
	width := len(o.wrong) / len(labels)
	clear(o.wrong)
	for part, rows := range o.rows {
		x := fused.Floats(v[part])
		for i, r := range rows {
			for k := range width {
				o.wrong[r*width+k] += x[i*width+k]
			}
		}
	}
	var loss float64
	o.right = 0
	for r, label := range labels {
		row := o.wrong[r*width : (r+1)*width]
		if best := argmax(row); best == int(label) {
			o.right++
		}
		loss -= math.Log(max(math.SmallestNonzeroFloat32, softmax(row, int(label))))
		row[label]--
	}
	*o.loss = gorgonia.F32(loss / o.batch)
	return o.Out, nil
}

// softmax turns logits into probabilities, and returns that of a label.
func softmax(row []float32, label int) float64 {
	most := row[argmax(row)]
	var sum float64
	for k, x := range row {
		e := math.Exp(float64(x - most))
		row[k] = float32(e)
		sum += e
	}
	for k := range row {
		row[k] = float32(float64(row[k]) / sum)
	}
	return float64(row[label])
}

// argmax is the index of the largest value, the first of equals.
func argmax(v []float32) int {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return best
}

// DiffWRT names the logits: labels are held fixed.
func (o *entropyOp) DiffWRT(inputs int) []bool {
	list := make([]bool, inputs)
	for i := range o.rows {
		list[i] = true
	}
	return list
}

// SymDiff builds the nodes of the gradients with respect to the logits of each part.
func (o *entropyOp) SymDiff(in gorgonia.Nodes, loss, grad *gorgonia.Node) (gorgonia.Nodes, error) {
	nodes := make(gorgonia.Nodes, len(in))
	for part, rows := range o.rows {
		// The loss is an input for the order alone: this reads what Do leaves.
		f, dx := o.graph.NewOp("cross-entropy gradient", []hm.Type{tensor.Float32, tensor.Float32}, nil, in[part].Shape()...)
		width := len(dx) / len(rows)
		nodes[part] = o.graph.Apply(&fused.Backward{Op: f, Compute: func(v ...gorgonia.Value) {
			scale := float32(float64(*v[1].(*gorgonia.F32)) / o.batch)
			for i, r := range rows {
				for k, p := range o.wrong[r*width : (r+1)*width] {
					dx[i*width+k] = scale * p
				}
			}
		}}, loss, grad)
	}
	return nodes, o.graph.Err()
}
