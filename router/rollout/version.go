package rollout

import (
	"errors"
	"fmt"
)

// ErrVersion is the error of a text that is no version.
var ErrVersion = errors.New("want 1 to 64 letters, digits and . _ + -, of which the first is a letter or a digit, such as 2 or 2026-11-28")

// CheckVersion refuses a text that cannot be the version of a model: engines have it in the names of
// models, which are paths of files and URLs.
func CheckVersion(text string) error {
	ok := text != "" && len(text) <= 64
	for i, c := range []byte(text) {
		alphanumeric := c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
		ok = ok && (alphanumeric || i > 0 && (c == '.' || c == '_' || c == '+' || c == '-'))
	}
	if !ok {
		return fmt.Errorf("%.80q is no version; %w", text, ErrVersion)
	}
	return nil
}
