package operate

import (
	"strings"
	"testing"
)

// Only a regular file is replaced: not a device, a pipe or a folder.
func TestKeysReplaceRegularFilesOnly(t *testing.T) {
	if err := replaceFile(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Error(err)
	}
}
