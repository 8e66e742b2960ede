package checkpoints_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/router/nn"
	"gearshift/router/observation"
)

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	c := sample(t, 1)
	got, err := checkpoints.Decode(encode(t, c))
	if err != nil {
		t.Fatal(err)
	}
	c.Meta.Format = checkpoints.Format
	if !reflect.DeepEqual(got, c) {
		t.Errorf("got\n%+v\nwant\n%+v", got, c)
	}
}

func TestEqualCheckpointsMakeEqualBytes(t *testing.T) {
	a := sample(t, 1)
	data := encode(t, a)
	b := sample(t, 1)
	b.Meta.Config = json.RawMessage("{ \"decisions\": 1000,\n\t\"hidden\": [8] }")
	if !bytes.Equal(data, encode(t, b)) {
		t.Error("white space in the configuration changes the bytes")
	}
	if a.Meta.Format != 0 {
		t.Error("Encode changes the checkpoint that it is given")
	}
	if bytes.Equal(data, encode(t, sample(t, 2))) {
		t.Error("different checkpoints make equal bytes")
	}
	decoded, err := checkpoints.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, encode(t, decoded)) {
		t.Error("a decoded checkpoint does not encode to the bytes that it came from")
	}
}

// The bytes are a contract with every store there is: a change of them needs a
// new Format, and code that reads this one.
func TestFormatStaysAsItIs(t *testing.T) {
	const want = "e3db0311140134fa3ea59240cd7815c4147d88c6827086aa7eb9fb9266923e84"
	if got := checkpoints.Digest(encode(t, sample(t, 1))); got != want {
		t.Errorf("the digest of the sample is %s, was %s", got, want)
	}
}

// reseal gives changed bytes a right CRC.
func reseal(data []byte) []byte {
	body := data[:len(data)-4]
	return binary.LittleEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
}

func TestDecodeSaysWhatIsWrong(t *testing.T) {
	good := encode(t, sample(t, 1))
	edit := func(f func([]byte) []byte) []byte { return f(bytes.Clone(good)) }
	for name, c := range map[string]struct {
		data []byte
		is   error
		text string
	}{
		"empty":            {nil, checkpoints.ErrNotCheckpoint, "this is not a checkpoint"},
		"other":            {[]byte("{\"format\": 1}"), checkpoints.ErrNotCheckpoint, "this is not a checkpoint"},
		"magic only":       {good[:8], checkpoints.ErrTruncated, "it is truncated: its 8 bytes do not even hold its header"},
		"half the magic":   {good[:4], checkpoints.ErrTruncated, "it is truncated: its 4 bytes do not even hold its header"},
		"no body":          {good[:24], checkpoints.ErrTruncated, "it is truncated: 0 bytes follow its header, which announces 711"},
		"one byte short":   {good[:len(good)-1], checkpoints.ErrTruncated, "it is truncated: 710 bytes follow its header, which announces 711"},
		"one byte more":    {append(bytes.Clone(good), 0), checkpoints.ErrChecksum, "it has grown: 712 bytes follow its header, which announces 711"},
		"huge network":     {edit(func(b []byte) []byte { b[23] = 0xff; return b }), checkpoints.ErrTruncated, "it is truncated: 711 bytes follow its header, which announces 18374686479671624391"},
		"newer":            {edit(func(b []byte) []byte { b[8] = 7; return b }), checkpoints.ErrNewerFormat, "it is written in the newer format 7, this gearshift reads formats up to 1"},
		"newer and short":  {edit(func(b []byte) []byte { b[8] = 7; return b[:12] }), checkpoints.ErrNewerFormat, "it is written in the newer format 7, this gearshift reads formats up to 1"},
		"flipped bit":      {edit(func(b []byte) []byte { b[40] ^= 1; return b }), checkpoints.ErrChecksum, "its CRC-32C is"},
		"metadata no JSON": {reseal(edit(func(b []byte) []byte { b[24] = '['; return b })), checkpoints.ErrContent, "bad metadata: invalid character"},
		"broken network": {reseal(edit(func(b []byte) []byte { b[24+binary.LittleEndian.Uint32(b[12:])] = 0; return b })),
			checkpoints.ErrContent, "cannot decode network: bad number of layers"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := checkpoints.Decode(c.data)
			if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), "cannot decode checkpoint: "+c.text) {
				t.Errorf("error %q, want %q", err, c.text)
			}
		})
	}
}

// Several networks, whose values caution weighs, are kept side by side.
func TestEncodeSeveralNetworks(t *testing.T) {
	want := sample(t, 1)
	stack(want)
	data, err := checkpoints.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := checkpoints.Decode(data)
	if err != nil || got.Meta.Caution != 0.5 || got.Network.Outputs() != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestEncodeRefusesWhatMakesNoPolicy(t *testing.T) {
	for text, spoil := range map[string]func(c *checkpoints.Checkpoint){
		"it has no network": func(c *checkpoints.Checkpoint) { c.Network = nil },
		"its network's weights and biases are not those of layers of [5 8 2]": func(c *checkpoints.Checkpoint) { c.Network.Biases[1] = nil },
		"its network takes 5 inputs, its Spec's observations hold 3":          func(c *checkpoints.Checkpoint) { c.Meta.Spec.Features = c.Meta.Spec.Features[1:] },
		"its network has 2 outputs, its Spec 3 variants":                      func(c *checkpoints.Checkpoint) { respec(c, []string{"a", "b", "c"}) },
		"its network has 4 outputs, its Spec 2 variants":                      func(c *checkpoints.Checkpoint) { stack(c); c.Meta.Caution = 0 },
		"its network has 4 outputs, its Spec 3 variants":                      func(c *checkpoints.Checkpoint) { stack(c); respec(c, []string{"a", "b", "c"}) },
		"it is for jobs, and has a Spec of requests": func(c *checkpoints.Checkpoint) {
			c.Meta.Jobs = &checkpoints.Jobs{Version: 1, Inputs: c.Network.Inputs(), Actions: c.Network.Outputs()}
		},
		"its network has 4 outputs, its Spec 0 variants": func(c *checkpoints.Checkpoint) {
			stack(c)
			c.Meta.Spec.Variants = nil
			c.Meta.Spec.Features[1] = observation.Feature{Kind: observation.SmoothedRate, Scale: []float64{1, 1}}
		},
		"its caution is -1, which is below 0": func(c *checkpoints.Checkpoint) { c.Meta.Caution = -1 },
		"its network has 2 outputs, its Spec wants 1 for a candidate": func(c *checkpoints.Checkpoint) {
			c.Meta.Spec.Features = c.Meta.Spec.Features[:1]
			c.Meta.Spec.Candidate = []observation.Feature{{Kind: observation.Neighbours, Scale: []float64{20, 4}}}
		},
		"layer 1 of its network holds a weight that is not finite":               func(c *checkpoints.Checkpoint) { c.Network.Biases[1][0] = float32(math.NaN()) },
		"layer 0 of its network holds a weight that is not finite":               func(c *checkpoints.Checkpoint) { c.Network.Weights[0][3] = float32(math.Inf(-1)) },
		`its Spec hash is "", its Spec's hash is "` + sample(t, 1).Meta.SpecHash: func(c *checkpoints.Checkpoint) { c.Meta.SpecHash = "" },
	} {
		c := sample(t, 1)
		spoil(c)
		_, err := checkpoints.Encode(c)
		if !errors.Is(err, checkpoints.ErrContent) || !strings.HasPrefix(err.Error(), "cannot encode checkpoint: "+text) {
			t.Errorf("error %q, want %q", err, text)
		}
	}
	for text, spoil := range map[string]func(c *checkpoints.Checkpoint){
		"invalid character":  func(c *checkpoints.Checkpoint) { c.Meta.Config = json.RawMessage("decisions: 3") },
		"unsupported value:": func(c *checkpoints.Checkpoint) { c.Meta.Spec.Features[2].Scale[0] = math.NaN() },
	} {
		c := sample(t, 1)
		spoil(c)
		if _, err := checkpoints.Encode(c); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want one with %q", err, text)
		}
	}
}

// stack makes c's network two.
func stack(c *checkpoints.Checkpoint) {
	c.Meta.Caution = 0.5
	c.Network, _ = nn.Stack(c.Network, c.Network)
}

// respec makes c observe as before for other variants.
func respec(c *checkpoints.Checkpoint, variants []string) {
	c.Meta.Spec.Variants = variants
	c.Meta.Spec.Features = []observation.Feature{
		{Kind: observation.TaskOneHot}, {Kind: observation.Shortest, Scale: []float64{1, 1, 1}}}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(f, sample(f, 1)))
	f.Add([]byte("GEARSHFT"))
	f.Fuzz(func(t *testing.T, data []byte) {
		decodeEither(t, data)
		if len(data) >= 4 {
			decodeEither(t, reseal(data)) // beyond the CRC
		}
	})
}

// decodeEither fails unless data is refused, or makes a policy that is stored
// as stably as any other.
func decodeEither(t *testing.T, data []byte) {
	c, err := checkpoints.Decode(data)
	if err != nil {
		return
	}
	dst := make([]float32, c.Network.Outputs())
	c.Network.Forward(dst, make([]float32, c.Network.Inputs()), make([]float32, c.Network.Scratch()))
	c.Meta.SpecHash = c.Meta.Spec.Hash()
	first := encode(t, c)
	again, err := checkpoints.Decode(first)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, encode(t, again)) {
		t.Error("a decoded checkpoint does not encode to the bytes that it came from")
	}
}

func BenchmarkDecode(b *testing.B) {
	c := sample(b, 1)
	network, err := nn.New(5, 256, 256, 2)
	if err != nil {
		b.Fatal(err)
	}
	c.Network = network
	data := encode(b, c)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := checkpoints.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
