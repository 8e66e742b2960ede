package models

import (
	"math"
	"math/rand/v2"
)

// The vocabulary: the 256 bytes, what merges make of them, and three special
// tokens.
const (
	BOS = iota + 256 + merges
	EOS
	PAD
	Vocabulary
)

// Decoder is the weights of a decoder-only transformer of GPT-2's form, with
// ReLU: learned positions, layer norms before attention and before the
// feed-forward part, and one after the last layer. Matrices are row-major with
// shape (in, out).
type Decoder struct {
	Size
	Heads, Context int
	// Concat is that the file's attention is of ONNX's plain operators, which make a new
	// cache at each step; else it is ONNX Runtime's own, which can write in place.
	Concat    bool
	Tokens    []float32 // (vocabulary, width)
	Positions []float32 // (context, width)
	Blocks    []Block
	Norm      Norm
	Head      []float32 // (width, vocabulary)
}

// Block is one layer.
type Block struct {
	Before, Between  Norm
	Attention, Merge Dense // width → query, key and value, 3 × width; width → width
	Expand, Contract Dense // width → 4 × width → width
}

// Norm is the gain and offset of a layer norm.
type Norm struct{ Gain, Offset []float32 }

// Dense is a layer's weights and bias.
type Dense struct{ Weights, Bias []float32 }

// Epsilon is added to the variance in each layer norm.
const Epsilon = 1e-5

// hidden is how much as wide the feed-forward part is.
const hidden = 4

// NewDecoder draws the weights of a decoder. The same arguments give the same
// weights. Scales are such that every layer's activations are about as large,
// and that the distribution of the next token is broad without being flat.
func NewDecoder(s Size, context int, seed uint64) *Decoder {
	random := rand.New(rand.NewPCG(seed, 0x6765617273))
	draw := func(n int, deviation float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(random.NormFloat64() * deviation)
		}
		return v
	}
	w := s.Width
	dense := func(in, out int, deviation float64) Dense {
		return Dense{draw(in*out, deviation/math.Sqrt(float64(in))), draw(out, 0.02)}
	}
	norm := func() Norm {
		n := Norm{make([]float32, w), draw(w, 0.02)}
		for i := range n.Gain {
			n.Gain[i] = 1
		}
		return n
	}
	d := &Decoder{Size: s, Heads: max(1, w/headWidth), Context: context}
	d.Tokens, d.Positions = draw(Vocabulary*w, 1), draw(context*w, 0.3)
	residual := 1 / math.Sqrt(2*float64(s.Layers))
	for range s.Layers {
		d.Blocks = append(d.Blocks, Block{
			Before: norm(), Attention: dense(w, 3*w, 1.2), Merge: dense(w, w, residual),
			Between: norm(), Expand: dense(w, hidden*w, math.Sqrt2), Contract: dense(hidden*w, w, residual),
		})
	}
	d.Norm, d.Head = norm(), draw(w*Vocabulary, 1.5/math.Sqrt(float64(w)))
	d.preferLetters()
	return d
}

// preferLetters has the decoder answer in letters and spaces. The first number
// behind the last norm is always 1, and its row of the head holds what each
// token's logit is raised or lowered by.
func (d *Decoder) preferLetters() {
	d.Norm.Gain[0], d.Norm.Offset[0] = 0, 1
	for t := range Vocabulary {
		switch {
		case t == ' ':
			d.Head[t] = 2
		case 'a' <= t && t <= 'z':
			d.Head[t] = 0
		case t == EOS:
			d.Head[t] = -1 // an answer of some 64 tokens
		case 'A' <= t && t <= 'Z' || t == ',' || t == '.':
			d.Head[t] = -3
		default:
			d.Head[t] = -20
		}
	}
}

// Parameters is how many weights there are.
func (d *Decoder) Parameters() int {
	w := d.Width
	return (2*Vocabulary+d.Context)*w + 2*w + d.Layers*(12*w*w+13*w)
}

// config is GPT-2's config.json.
func (d *Decoder) config() []byte {
	return indented("  ", map[string]any{
		"model_type": "gpt2", "architectures": []string{"GPT2LMHeadModel"}, "activation_function": "relu",
		"n_layer": d.Layers, "n_embd": d.Width, "n_head": d.Heads, "n_inner": hidden * d.Width,
		"n_positions": d.Context, "n_ctx": d.Context, "vocab_size": Vocabulary, "layer_norm_epsilon": Epsilon,
		"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD,
		"tie_word_embeddings": false, "use_cache": true, "torch_dtype": "float32",
	})
}
