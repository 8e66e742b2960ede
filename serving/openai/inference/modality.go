package inference

import (
	"slices"
	"strings"
)

// knownTensors are those of our own engines and of common exports, by which a tensor is of a
// modality without being named so.
var knownTensors = map[string]string{
	"input_ids": "text", "attention_mask": "text", "token_type_ids": "text",
	"pixel_values": "image", "input_values": "audio", "input_features": "audio", "pixel_values_videos": "video",
}

// ModalityOf is the index of the modality that the tensor is of by its name: the one that the
// name is or begins with, before an underscore, or else that of a name that is known. It is −1
// if the tensor is of none of them.
func ModalityOf(tensor string, modalities []string) int {
	for i, name := range modalities {
		if tensor == name || strings.HasPrefix(tensor, name+"_") {
			return i
		}
	}
	return slices.Index(modalities, knownTensors[tensor])
}
