package command

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/event"
)

// maxAnchors is how many heads are compared in one call.
const maxAnchors = 100

// verifyAnswer is the result for each chain of events.
type verifyAnswer struct {
	Sound  bool             `json:"sound"`
	Chains []event.Verified `json:"chains"`
}

func adminVerifyEvents(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var anchors []event.Anchor
	for _, text := range r.URL.Query()["anchor"] {
		a, err := event.ParseAnchor(text)
		if err != nil {
			return nil, badRequest{err}
		}
		anchors = append(anchors, a)
	}
	if len(anchors) > maxAnchors {
		return nil, badRequestf("more than %d anchors", maxAnchors)
	}
	list, err := event.Verify(r.Context(), i.Store, anchors...)
	if err != nil {
		return nil, err
	}
	answer := verifyAnswer{Sound: true, Chains: list}
	for _, v := range list {
		answer.Sound = answer.Sound && len(v.Problems) == 0
	}
	if list == nil {
		answer.Chains = []event.Verified{}
	}
	return answer, nil
}
