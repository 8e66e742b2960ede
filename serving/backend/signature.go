package backend

// Signature describes the tensors of a model, in the form of the Open Inference Protocol.
type Signature struct {
	Platform string       `json:"platform"`
	Inputs   []TensorType `json:"inputs"`
	Outputs  []TensorType `json:"outputs"`
}

// TensorType is a tensor's name, type and shape. A dimension of -1 is of any size.
type TensorType struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// Described is an engine that can describe its model's tensors.
type Described interface{ Signature() Signature }
