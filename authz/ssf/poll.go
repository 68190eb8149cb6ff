package ssf

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	pollMost  = 100              // events in one answer
	pollWait  = 20 * time.Second // of a long poll
	pollEvery = 500 * time.Millisecond
)

// pollRequest is the body of POST /ssf/poll. (RFC 8936 2.2)
type pollRequest struct {
	Max         *int                `json:"maxEvents"`
	Immediately bool                `json:"returnImmediately"`
	Ack         []string            `json:"ack"`
	Errors      map[string]setError `json:"setErrs"`
}

// setError is why a receiver does not take an event. (RFC 8936 2.6)
type setError struct {
	Code        string `json:"err"`
	Description string `json:"description"`
}

// pollAnswer is the answer. (RFC 8936 2.3)
type pollAnswer struct {
	Sets map[string]string `json:"sets"`
	More bool              `json:"moreAvailable,omitempty"`
}

// HandlePoll serves POST /ssf/poll (RFC 8936): it removes what the receiver has acknowledged or refused, and answers
// with what waits. Without returnImmediately it waits for the first event.
func (s *Service) HandlePoll(w http.ResponseWriter, r *http.Request) error {
	c, err := s.receiver(r, ScopeManage)
	if err != nil {
		return err
	}
	var sent pollRequest
	if err := read(r, &sent); err != nil {
		return err
	}
	most := pollMost
	if sent.Max != nil {
		if most = min(*sent.Max, pollMost); most < 0 {
			return oauth.InvalidRequest(nil, "maxEvents is negative")
		}
	}
	gone := sent.Ack
	for id, e := range sent.Errors {
		s.deps.Log.Warn("shared signal refused by its receiver", zap.String("client_id", c.ID), zap.String("jti", oauth.Printable(id)),
			zap.String("err", oauth.Printable(e.Code)))
		gone = append(gone, id)
	}
	var rec streamRecord
	err = s.update(r.Context(), func(tx storage.Tx) (err error) {
		if rec, err = find(tx, c.ID, ""); err == nil && rec.Method != methodPoll {
			err = oauth.InvalidRequest(nil, "events of this stream are pushed")
		}
		for i := 0; err == nil && i < len(gone); i++ {
			if len(gone[i]) <= maxText { // ours are shorter, and storage takes no key of any length
				err = items.Delete(tx, storage.Key(rec.ID, gone[i]))
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	answer := pollAnswer{Sets: map[string]string{}}
	if most == 0 || rec.Status != enabled {
		return write(w, http.StatusOK, answer)
	}
	end := s.now().Add(pollWait)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		list, err := s.waiting(r.Context(), rec.ID, "", most+1)
		if err != nil {
			return oauth.StorageError(err)
		}
		answer.More = len(list) > most
		var untold []string
		for i := range list[:min(len(list), most)] {
			id, item := storage.Parts(list[i].Key)[1], &list[i].Value
			now := s.now()
			if item.At.IsZero() {
				item.At = now
			}
			text, err := "", errNotTold
			if !item.late(now) {
				text, err = s.event(r.Context(), c, &rec, id, item)
			}
			switch {
			case errors.Is(err, errNotTold):
				untold = append(untold, list[i].Key)
			case err != nil:
				return oauth.StorageError(err)
			default:
				answer.Sets[id] = text
			}
		}
		if err := s.forget(r, untold); err != nil {
			return err
		}
		if len(answer.Sets) > 0 || sent.Immediately && !answer.More || !s.now().Before(end) {
			return write(w, http.StatusOK, answer)
		}
		if answer.More {
			continue // all of these were for others
		}
		select {
		case <-r.Context().Done():
			return write(w, http.StatusOK, answer)
		case <-tick.C:
		}
	}
}

// forget removes items that the receiver is not told of.
func (s *Service) forget(r *http.Request, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return s.update(r.Context(), func(tx storage.Tx) error {
		return deleteItems(tx, keys)
	})
}
