package archtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestNotebooksHaveNoOutputs keeps numbers and pictures of someone's run out of
// the notebooks: `make notebooks` executes copies.
func TestNotebooksHaveNoOutputs(t *testing.T) {
	files, err := filepath.Glob(root + "/notebooks/*.ipynb")
	if err != nil || len(files) == 0 {
		t.Fatalf("no notebooks: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var notebook struct {
			Cells []struct {
				Outputs []json.RawMessage `json:"outputs"`
				Count   *int              `json:"execution_count"`
			} `json:"cells"`
		}
		if err := json.Unmarshal(text, &notebook); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for i, cell := range notebook.Cells {
			if len(cell.Outputs) > 0 || cell.Count != nil {
				t.Errorf("%s: cell %d has outputs; clear them all", file, i+1)
			}
		}
	}
}
