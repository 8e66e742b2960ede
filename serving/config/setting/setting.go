// Package setting reads keys and other values from environment variables and files as
// they are meant: files and Kubernetes Secrets often end them in a line break that does
// not belong to them.
package setting

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"unicode"
)

// mark is the byte order mark that some editors put before a text.
const mark = "\ufeff"

// Trim is the text without white space, line breaks and byte order marks around it.
func Trim(text string) string {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' || r == 0 })
}

// Env is the value of an environment variable, trimmed.
func Env(name string) string { return Trim(os.Getenv(name)) }

// Key returns the key, token or password in an environment variable, trimmed. An empty variable is
// an error, which says what it must hold. Errors name the variable and reveal nothing of its value.
func Key(name, what string) (string, error) {
	key := Env(name)
	err := CheckKey(key)
	if key == "" {
		err = fmt.Errorf("is empty; it must hold %s", what)
	}
	if err != nil {
		return "", fmt.Errorf("the environment variable %s %w", name, err)
	}
	return key, nil
}

// CheckKey refuses a key with white space or control characters within. The error says
// nothing of the key except the position.
func CheckKey(key string) error {
	i := -1
	for _, r := range key {
		i++
		switch {
		case r == '\n' || r == '\r':
			return fmt.Errorf("holds a line break within its key, at character %d; want one key alone", i+1)
		case unicode.IsSpace(r):
			return fmt.Errorf("holds white space within its key, at character %d; want one key alone", i+1)
		case unicode.IsControl(r):
			return fmt.Errorf("holds a control character within its key, at character %d; want one key alone", i+1)
		}
	}
	return nil
}

// Text is the content of a text file without a byte order mark at its beginning.
func Text(data []byte) []byte { return bytes.TrimPrefix(data, []byte(mark)) }
