package classifier

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"gearshift/serving/backend/tokenizer"
)

// Folder is what lies next to a classifier's model file.
type Folder struct {
	Tokenizer    *tokenizer.Tokenizer
	Labels       []string
	Context      int
	SamplingRate int
	Vocabulary   int // of the model
}

// ReadFolder reads config.json and tokenizer.json.
func ReadFolder(dir string) (f *Folder, err error) {
	f = new(Folder)
	if f.Tokenizer, err = tokenizer.LoadFolder(dir, f.config); err != nil {
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
	if c.Context < 1 || c.Rate < 1 || c.Vocabulary < 1 {
		return errors.New("it lacks max_position_embeddings, sampling_rate or vocab_size")
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
