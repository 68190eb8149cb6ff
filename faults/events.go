package faults

import (
	"context"
	"encoding/json"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// verification is the admin API's answer to the check of the events.
type verification struct {
	Sound  bool `json:"sound"`
	Chains []struct {
		Chain    string   `json:"chain"`
		Events   int      `json:"events"`
		Unsealed int      `json:"unsealed"`
		Problems []string `json:"problems"`
	} `json:"chains"`
}

// events makes the server check its chains of events: none is broken, and each token of a person has an event. Those of
// a client itself can share one.
func (r *Run) events(ctx context.Context, when string) {
	a := r.Server.Get(ctx, r.Server.Admin()+"/gatehouse/events/verify")
	var v verification
	if err := json.Unmarshal(a.Body, &v); err != nil || a.Status != 200 {
		r.violation("%s: the check of the events failed: %d %v %s", when, a.Status, a.Err, tail(string(a.Body)))
		return
	}
	there, given := 0, 0
	for _, c := range v.Chains {
		there += c.Events + c.Unsealed
		for _, p := range c.Problems {
			r.violation("%s: events of %s: %s", when, c.Chain, p)
		}
	}
	for _, w := range r.workers {
		for _, t := range w.tokens {
			if t.client != lab.MachineID {
				given++
			}
		}
	}
	if there < given {
		r.Lost.Add(int64(given - there))
		r.violation("%s: %d tokens of persons were issued and there are %d events", when, given, there)
	}
}
