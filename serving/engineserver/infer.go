package engineserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"gearshift/serving/backend"
	"gearshift/serving/openai/wire"
)

// infer is the Open Inference Protocol's: the model answers it, if it is made for it.
func (s *Server) infer(w http.ResponseWriter, r *http.Request) {
	m, err := s.asked(r)
	if err != nil {
		failV2(w, http.StatusNotFound, err)
		return
	}
	coding, ok := wire.CodingOf(r.Header["Content-Encoding"])
	if !ok {
		failV2(w, http.StatusUnsupportedMediaType, fmt.Errorf("content encoding %q; want gzip, deflate or none", r.Header["Content-Encoding"]))
		return
	}
	from := http.MaxBytesReader(w, r.Body, maxBody)
	if coding != "" {
		from = http.MaxBytesReader(w, wire.NewCodedReader(from, coding), maxBody)
	}
	body, err := io.ReadAll(from)
	if err != nil {
		failV2(w, http.StatusBadRequest, err)
		return
	}
	variant := m.Name
	if shared := s.sharedNamed(m.Name); shared != nil {
		if variant, err = shared.infers(r.Header, body); err != nil {
			failV2(w, http.StatusBadRequest, err)
			return
		}
	}
	lease, err := s.models.Acquire(variant)
	if err != nil {
		failV2(w, statusOf(err, http.StatusNotFound), err)
		return
	}
	defer lease.End()
	if d, ok := lease.Engine.(backend.Described); !ok || len(d.Signature().Inputs) == 0 {
		failV2(w, http.StatusBadRequest, fmt.Errorf("the model %q takes no tensors; it answers %s", m.Name, backend.ChatPath))
		return
	}
	s.answer(w, r, task{lease, naming{m.Name, variant, backend.TensorRows(r.Header, body)}, body, failInference})
}

// failInference is a failure in the protocol's form.
func failInference(w http.ResponseWriter, status int, e wire.Error) {
	failV2(w, status, errors.New(e.Message))
}
