package classifier

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"gearshift/serving/backend/tokenizer"
)

// Folder is what lies next to a classifier's model file.
type Folder struct {
	Tokenizer    *tokenizer.Tokenizer // nil if the model takes no text
	Labels       []string
	Context      int
	SamplingRate int
	Vocabulary   int // of the model; 0 if it takes no text
}

// ReadFolder reads config.json, and tokenizer.json if the model takes text.
func ReadFolder(dir string) (f *Folder, err error) {
	f = new(Folder)
	err = tokenizer.Configure(dir, f.config)
	if err == nil && f.Vocabulary > 0 {
		f.Tokenizer, err = tokenizer.Load(filepath.Join(dir, "tokenizer.json"))
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// configuration is what is read of config.json.
type configuration struct {
	Labels     map[string]string `json:"id2label"`
	Context    int               `json:"max_position_embeddings"`
	Rate       int               `json:"sampling_rate"`
	Vocabulary int               `json:"vocab_size"`
}

func (f *Folder) config(data []byte) error {
	var c configuration
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("it is not the JSON of a model's configuration: %w", err)
	}
	switch {
	case c.Vocabulary < 0 || c.Rate < 0 || c.Context < 0:
		return errors.New("its vocab_size, sampling_rate or max_position_embeddings is negative")
	case (c.Vocabulary > 0) != (c.Context > 0):
		return errors.New("it has one of vocab_size and max_position_embeddings; a model of text has both, and any other neither")
	}
	for i := range len(c.Labels) {
		label, ok := c.Labels[strconv.Itoa(i)]
		if !ok {
			return fmt.Errorf("its id2label has %d labels and none with the number %d", len(c.Labels), i)
		}
		f.Labels = append(f.Labels, label)
	}
	f.Context, f.SamplingRate, f.Vocabulary = c.Context, c.Rate, c.Vocabulary
	return nil
}
