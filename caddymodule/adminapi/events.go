package adminapi

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/storage"
)

// eventLossAccepted is written by a command, whether a server runs or not.
var eventLossAccepted = audit.Type{Type: "storage.StorageLossAcceptedEvent", Name: "Storage Loss Accepted"}

var eventUpgradeFinished = audit.Type{Type: "storage.StorageUpgradeFinishedEvent", Name: "Storage Upgrade Finished"}

// maxAnchors is the maximum number of heads that are compared in one call.
const maxAnchors = 100

// VerifyAnswer is the result for each chain of events.
type VerifyAnswer struct {
	Sound  bool             `json:"sound"`
	Chains []audit.Verified `json:"chains"`
}

func adminVerifyEvents(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var anchors []audit.Anchor
	for _, text := range r.URL.Query()["anchor"] {
		a, err := audit.ParseAnchor(text)
		if err != nil {
			return nil, badRequest{err}
		}
		anchors = append(anchors, a)
	}
	if len(anchors) > maxAnchors {
		return nil, badRequestf("more than %d anchors", maxAnchors)
	}
	list, err := calllog.Verify(r.Context(), i.Store, anchors...)
	if err != nil {
		return nil, err
	}
	writers, err := cluster.Writers(r.Context(), i.Store)
	if err != nil {
		return nil, err
	}
	answer := VerifyAnswer{Sound: true, Chains: list}
	for n := range list {
		list[n].Node = writers[list[n].Lane]
		answer.Sound = answer.Sound && len(list[n].Problems) == 0
	}
	if list == nil {
		answer.Chains = []audit.Verified{}
	}
	return answer, nil
}

// EventInfo is an event as the commands show it.
type EventInfo struct {
	audit.Info

	Number   uint64 `json:"number"` // in its chain
	Chain    string `json:"chain"`
	Actor    string `json:"actor,omitempty"`
	ClientID string `json:"client_id,omitempty"`
	Username string `json:"username,omitempty"` // of the person
}

// adminListEvents answers the events that the parameters select: since and until (RFC 3339), type (repeated), person,
// actor, client, address, ref, partition, tokens=true (the brief events of clients alone), after and limit;
// follow=true goes forward in time.
func adminListEvents(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	s, err := i.readSearch(r)
	if err != nil {
		return nil, err
	}
	var out Page[EventInfo]
	err = i.Store.View(r.Context(), func(tx storage.Tx) error {
		out = Page[EventInfo]{Items: []EventInfo{}}
		if s.Following && !r.URL.Query().Has("after") {
			last, err := s.Last(tx)
			out.Next = last.String()
			return err
		}
		found, next, err := s.Find(tx)
		if err != nil {
			return err
		}
		var ids []string
		for _, e := range found {
			ids = append(ids, e.PersonID)
		}
		people, err := i.Identity.Person.ManyPersons(tx, ids)
		if err != nil {
			return err
		}
		names := map[string]string{}
		for _, p := range people {
			names[p.ID] = Typed(p)
		}
		for _, e := range found {
			out.Items = append(out.Items,
				EventInfo{Info: e.Info(), Number: e.Number, Chain: e.Chain, Actor: e.Actor, ClientID: e.ClientID, Username: names[e.PersonID]})
		}
		out.Next = afterCursor(next)
		return nil
	})
	return out, err
}

func (i *Instance) readSearch(r *http.Request) (s audit.Search, err error) {
	q := r.URL.Query()
	s.Partition, s.Brief = cmp.Or(q.Get("partition"), audit.DefaultPartition), q.Get("tokens") == "true"
	s.Following, s.Types, s.Client, s.Actor = q.Get("follow") == "true", q["type"], q.Get("client"), q.Get("actor")
	s.Address, s.Ref = q.Get("address"), q.Get("ref")
	s.Since, s.Until, s.Person, s.Behind, s.Limit, err = i.readSelection(r)
	return s, err
}

// readSelection reads what all searches have: times, a person, and which part of what is found.
func (i *Instance) readSelection(r *http.Request) (since, until time.Time, id string, behind audit.Cursor, limit int, err error) {
	q := r.URL.Query()
	for name, to := range map[string]*time.Time{"since": &since, "until": &until} {
		if text := q.Get(name); text != "" {
			if *to, err = time.Parse(time.RFC3339Nano, text); err != nil {
				return since, until, "", nil, 0, badRequestf("%s: %q is not a time such as 2026-01-31T12:00:00Z", name, text)
			}
		}
	}
	if limit, err = pageSize(q.Get("limit")); err != nil {
		return since, until, "", nil, 0, err
	}
	if text := q.Get("after"); text != "" {
		if behind, err = audit.ParseCursor(text); err != nil {
			return since, until, "", nil, 0, badRequestf("after: %v", err)
		}
	}
	if name := q.Get("person"); name != "" {
		p, err := i.Identity.Person.Person(r.Context(), name)
		switch {
		case errors.Is(err, person.ErrNoPerson) && uuid.Validate(name) == nil:
			id = name // a removed person has events
		case err != nil:
			return since, until, "", nil, 0, i.aboutPerson(r, name, err)
		default:
			id = p.ID
		}
	}
	return since, until, id, behind, limit, nil
}
