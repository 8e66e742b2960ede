package wire

import (
	"errors"
	"net/http"
)

// Refusal is an error with the status that says so to the client.
type Refusal struct {
	Status int
	Error
}

// Bad refuses a request that is itself at fault.
func Bad(status int, param, code, message string) *Refusal {
	return &Refusal{status, Error{Type: InvalidRequest, Param: Optional(param), Code: Optional(code), Message: message}}
}

// RefusalOf answers to an error of reading JSON; nil to none.
func RefusalOf(err error) *Refusal {
	if err == nil {
		return nil
	}
	var e Error
	if !errors.As(err, &e) {
		e = Error{Type: InvalidRequest, Message: err.Error()}
	}
	return &Refusal{http.StatusBadRequest, e}
}
