package adminapi

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/denial"
)

// WhyAnswer is a refusal, with what it means.
type WhyAnswer struct {
	Sentence string `json:"sentence"` // who was refused what, and why
	Fix      string `json:"fix"`      // what would let them in
	denial.Refusal
}

func adminWhy(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	ref, err := denial.ParseRef(r.URL.Query().Get("ref"))
	if err != nil {
		return nil, err
	}
	f, err := i.Refusals.Find(r.Context(), ref)
	if err != nil {
		return nil, err
	}
	return WhyAnswer{Sentence: f.Sentence(), Fix: f.Reason.Fix(), Refusal: f}, nil
}
