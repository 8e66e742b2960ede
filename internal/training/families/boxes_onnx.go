package families

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"gearshift/checkpoints/onnxfile"
	"gearshift/internal/onnxruntime"
	"gearshift/rl/supervised"
	"gearshift/serving/backend/models"
	"gearshift/workloads/scenes"
)

// boxesONNX is the network as a model file, with any batch. It has the inputs of a classifier of images, so that engines
// run it: of the colours it takes the mean, and a row without an image has no box. Its logits are the numbers of all
// cells, one cell after the other.
func boxesONNX(n *boxesNetwork) []byte {
	g := &onnxfile.Graph{Name: "boxes"}
	batch, side := onnxfile.Any("batch_size"), onnxfile.Fixed(scenes.Side)
	g.Input(models.PixelValues, onnxfile.Float32, batch, onnxfile.Fixed(3), side, side)
	g.Input(models.ModalityMask, onnxfile.Float32, batch, onnxfile.Fixed(models.Modalities))
	g.Output(models.Logits, onnxfile.Float32, batch, onnxfile.Fixed(scenes.Cells*scenes.Cells*scenes.Values))
	g.Wholes("image", []int64{models.Image}, 1)
	g.Node("ReduceMean", []string{models.PixelValues}, []string{"x0"}, onnxfile.Wholes("axes", 1))
	channels := 1
	for i, l := range n.Layers {
		s, name := n.Shapes[i], fmt.Sprintf("layer%d", i)
		g.Reals(name+".weights", kernels(l.Weights, s, channels), s.Out, channels, s.Kernel, s.Kernel)
		g.Reals(name+".bias", l.Biases, s.Out)
		pad, stride := int64(s.Kernel/2), int64(s.Stride)
		x, y := fmt.Sprintf("x%d", i), fmt.Sprintf("x%d", i+1)
		to := name
		if i == len(n.Layers)-1 {
			to = y
		}
		g.Node("Conv", []string{x, name + ".weights", name + ".bias"}, []string{to},
			onnxfile.Wholes("pads", pad, pad, pad, pad), onnxfile.Wholes("strides", stride, stride))
		if to != y {
			g.Node("Relu", []string{to}, []string{y})
		}
		channels = s.Out
	}
	g.Node("Transpose", []string{fmt.Sprintf("x%d", len(n.Layers))}, []string{"cells"}, onnxfile.Wholes("perm", 0, 2, 3, 1))
	g.Node("Flatten", []string{"cells"}, []string{"numbers"})
	g.Node("Gather", []string{models.ModalityMask, "image"}, []string{"there"}, onnxfile.Whole("axis", 1))
	g.Node("Mul", []string{"numbers", "there"}, []string{models.Logits})
	return g.Model()
}

// kernels has weights, which are of shape (rows, columns, channels, out), in the order of (out, channels, rows, columns).
func kernels(w []float32, s supervised.Convolution, channels int) []float32 {
	t := make([]float32, len(w))
	size := s.Kernel * s.Kernel
	for i, v := range w {
		out, channel, pixel := i%s.Out, i/s.Out%channels, i/s.Out/channels
		t[(out*channels+channel)*size+pixel] = v
	}
	return t
}

// boxesConfig is config.json.
func boxesConfig() []byte {
	labels, values := map[string]string{}, [...]string{"object", "left", "upper", "right", "lower"}
	for i := range scenes.Cells * scenes.Cells * scenes.Values {
		cell := i / scenes.Values
		labels[fmt.Sprint(i)] = fmt.Sprintf("row %d column %d %s", cell/scenes.Cells, cell%scenes.Cells, values[i%scenes.Values])
	}
	b, err := json.MarshalIndent(map[string]any{
		"model_type": models.ClassifierType, "id2label": labels, "torch_dtype": "float32", "image_size": scenes.Side,
	}, "", "  ")
	if err != nil { // plain values always encode
		panic(err)
	}
	return append(b, '\n')
}

// detector runs the exported files where this build has ONNX Runtime, otherwise the trained network, and says which.
func (n *boxesNetwork) detector(files map[string][]byte) (d detect, by string, end func(), err error) {
	if err := onnxruntime.Available(); err != nil {
		return n.detect, countedByNetwork(err), func() {}, nil
	}
	folder, err := os.MkdirTemp("", "gearshift-boxes-")
	if err != nil {
		return nil, "", nil, err
	}
	defer os.RemoveAll(folder)
	folder = filepath.Join(folder, "model")
	if err := models.Write(folder, files, false); err != nil {
		return nil, "", nil, err
	}
	o, err := onnxruntime.OpenDetector(folder, 1)
	if err != nil {
		return nil, "", nil, err
	}
	return o.Detect, countedByExport(), o.Close, nil
}
