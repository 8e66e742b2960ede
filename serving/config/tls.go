package config

import (
	"fmt"
)

// TLS is a certificate and its private key, as files of PEM. Both are read
// again when they change. None of them is no encryption.
type TLS struct {
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
}

// On reports whether connections are encrypted.
func (t TLS) On() bool { return t != TLS{} }

// validate names the key, which lies under the given one, that is missing.
func (t TLS) validate(under string) error {
	if t.On() && (t.Cert == "" || t.Key == "") {
		return fmt.Errorf("%s: cert and key go together: each is a file", under)
	}
	return nil
}
