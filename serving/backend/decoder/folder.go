package decoder

import (
	"encoding/json"
	"errors"
	"fmt"

	"gearshift/serving/backend/tokenizer"
)

// Folder is what lies next to a model file: config.json and tokenizer.json.
type Folder struct {
	Tokenizer *tokenizer.Tokenizer
	// Context is how many tokens the model was made for.
	Context int
	// End are the tokens that end an answer.
	End []int64
	// Vocabulary is how many tokens the model knows.
	Vocabulary int
}

// ReadFolder reads the folder of a model, as Hugging Face Optimum writes it.
func ReadFolder(dir string) (f *Folder, err error) {
	f = new(Folder)
	if f.Tokenizer, err = tokenizer.LoadFolder(dir, f.config); err != nil {
		return nil, err
	}
	return f, nil
}

// configuration is what is read of config.json.
type configuration struct {
	Positions  int             `json:"max_position_embeddings"`
	NPositions int             `json:"n_positions"`
	Vocabulary int             `json:"vocab_size"`
	End        json.RawMessage `json:"eos_token_id"`
}

func (f *Folder) config(data []byte) error {
	var c configuration
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("it is not the JSON of a model's configuration: %w", err)
	}
	f.Context, f.Vocabulary = max(c.Positions, c.NPositions), c.Vocabulary
	if f.Context < 2 {
		return errors.New("it has neither max_position_embeddings nor n_positions, the length of the context")
	}
	if len(c.End) == 0 || json.Unmarshal(c.End, &f.End) == nil { // null too
		return nil
	}
	var one int64
	if json.Unmarshal(c.End, &one) != nil {
		return errors.New("its eos_token_id is neither a number nor a list of numbers")
	}
	f.End = []int64{one}
	return nil
}

// match holds the tokenizer's vocabulary against the model's. Models often have
// some rows more than tokens, up to a round number.
func match(tokens, rows int) error {
	const round, most = 8, 1024
	if tokens == rows || tokens < rows && rows%round == 0 && rows-tokens < most {
		return nil
	}
	return fmt.Errorf("the tokenizer does not match the model: it has %d tokens, the model %d", tokens, rows)
}
