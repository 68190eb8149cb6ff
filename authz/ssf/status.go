package ssf

import (
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// status is the body of /ssf/status. (OpenID SSF 1.0, 8.1.2)
type status struct {
	ID     string `json:"stream_id"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
}

// HandleStatus serves GET and POST /ssf/status. (OpenID SSF 1.0, 8.1.2)
func (s *Service) HandleStatus(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodGet {
		return s.readStatus(w, r)
	}
	c, err := s.receiver(r, ScopeManage)
	if err != nil {
		return err
	}
	var sent status
	if err := read(r, &sent); err != nil {
		return err
	}
	switch {
	case sent.ID == "":
		return oauth.InvalidRequest(nil, "stream_id is missing")
	case sent.Status != enabled && sent.Status != paused && sent.Status != disabled:
		return oauth.InvalidRequest(nil, "status: want enabled, paused or disabled")
	case len([]rune(sent.Reason)) > maxText:
		return oauth.InvalidRequest(nil, "reason is longer than 256 characters")
	}
	e, err := s.deps.Events.New(eventUpdated, s.deps.Origin(r))
	if err != nil {
		return err
	}
	e.Actor, e.ClientID, e.Reason = c.ID, c.ID, sent.Status
	if err := s.change(r.Context(), c.ID, sent.ID, e,
		func(rec *streamRecord) { rec.Status, rec.Reason = sent.Status, sent.Reason }); err != nil {
		return err
	}
	return write(w, http.StatusOK, sent)
}

func (s *Service) readStatus(w http.ResponseWriter, r *http.Request) error {
	c, err := s.receiver(r, ScopeRead)
	if err != nil {
		return err
	}
	id := r.URL.Query().Get("stream_id")
	if id == "" {
		return oauth.InvalidRequest(nil, "stream_id is missing")
	}
	var rec streamRecord
	err = s.view(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = find(tx, c.ID, id)
		return err
	})
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, status{ID: rec.ID, Status: rec.Status, Reason: rec.Reason})
}

// subjectID is the subject of an event: the formats iss_sub and opaque, and complex with a user of them. (RFC 9493 3.2;
// OpenID SSF 1.0, 3)
type subjectID struct {
	Format  string     `json:"format"`
	Issuer  string     `json:"iss,omitempty"`
	Subject string     `json:"sub,omitempty"`
	ID      string     `json:"id,omitempty"`
	User    *subjectID `json:"user,omitempty"`
	Session *subjectID `json:"session,omitempty"`
}

// sub returns the subject identifier of a person at the receiver that is meant.
func (s *Service) sub(id *subjectID) (string, error) {
	if id == nil {
		return "", oauth.InvalidRequest(nil, "subject is missing")
	}
	if id.Format == "complex" {
		if id = id.User; id == nil {
			return "", oauth.InvalidRequest(nil, "a complex subject needs a user")
		}
	}
	sub := ""
	switch id.Format {
	case "iss_sub":
		if id.Issuer != s.issuer {
			return "", oauth.InvalidRequest(nil, "subject: iss is another issuer")
		}
		sub = id.Subject
	case "opaque":
		sub = id.ID
	default:
		return "", oauth.InvalidRequest(nil, "subject: want the format iss_sub, opaque, or complex with a user of them")
	}
	if sub == "" || len(sub) > maxText {
		return "", oauth.InvalidRequest(nil, "subject: no identifier, or one that is too long")
	}
	return sub, nil
}

// subjectRequest is the body of /ssf/subjects/add and /ssf/subjects/remove. (OpenID SSF 1.0, 8.1.3)
type subjectRequest struct {
	ID       string     `json:"stream_id"`
	Subject  *subjectID `json:"subject"`
	Verified *bool      `json:"verified"`
}

// HandleAdd serves POST /ssf/subjects/add. The answer is the same whether we know the person or not.
func (s *Service) HandleAdd(w http.ResponseWriter, r *http.Request) error {
	if err := s.name(r, false); err != nil {
		return err
	}
	return write(w, http.StatusOK, struct{}{})
}

// HandleRemove serves POST /ssf/subjects/remove.
func (s *Service) HandleRemove(w http.ResponseWriter, r *http.Request) error {
	if err := s.name(r, true); err != nil {
		return err
	}
	writeNothing(w)
	return nil
}

func (s *Service) name(r *http.Request, removed bool) error {
	c, err := s.receiver(r, ScopeManage)
	if err != nil {
		return err
	}
	var sent subjectRequest
	if err := read(r, &sent); err != nil {
		return err
	}
	if sent.ID == "" {
		return oauth.InvalidRequest(nil, "stream_id is missing")
	}
	sub, err := s.sub(sent.Subject)
	if err != nil {
		return err
	}
	return s.update(r.Context(), func(tx storage.Tx) error {
		rec, err := find(tx, c.ID, sent.ID)
		if err != nil {
			return err
		}
		key := storage.Key(rec.ID, sub)
		had, found, err := subjects.Find(tx, key)
		switch {
		case err != nil || found && had.Removed == removed:
			return err
		case found || removed != s.cfg.All: // back to what goes without saying
			if !found {
				return nil
			}
			rec.Subjects--
			if err := subjects.Delete(tx, key); err != nil {
				return err
			}
		case rec.Subjects >= mostSubjects:
			return oauth.TooManyTries(errFull, time.Hour)
		default:
			rec.Subjects++
			if err := subjects.Put(tx, key, subjectRecord{Removed: removed}, never); err != nil {
				return err
			}
		}
		return streams.Put(tx, c.ID, rec, never)
	})
}

// hears reports whether the receiver of a stream is told of a subject.
func (s *Service) hears(tx storage.Tx, stream, sub string) (bool, error) {
	rec, found, err := subjects.Find(tx, storage.Key(stream, sub))
	if err != nil || !found {
		return s.cfg.All, err
	}
	return !rec.Removed, nil
}

// verify is the body of /ssf/verify. (OpenID SSF 1.0, 8.1.4.2)
type verify struct {
	ID    string  `json:"stream_id"`
	State *string `json:"state"`
}

// HandleVerify serves POST /ssf/verify: the receiver gets an event with the state that it has sent.
func (s *Service) HandleVerify(w http.ResponseWriter, r *http.Request) error {
	c, err := s.receiver(r, ScopeManage)
	if err != nil {
		return err
	}
	var sent verify
	if err := read(r, &sent); err != nil {
		return err
	}
	if sent.ID == "" {
		return oauth.InvalidRequest(nil, "stream_id is missing")
	}
	item := itemRecord{Kind: verification, At: s.now()}
	if sent.State != nil {
		// What is too long would come back cut.
		if item.Detail = *sent.State; len([]rune(item.Detail)) > maxText {
			return oauth.InvalidRequest(nil, "state is longer than 256 characters")
		}
	}
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return err
	}
	err = s.update(r.Context(), func(tx storage.Tx) error {
		rec, err := find(tx, c.ID, sent.ID)
		if err != nil {
			return err
		}
		if next := rec.VerifiedAt.Add(verifyEvery); next.After(item.At) {
			return oauth.TooManyTries(errTooSoon, next.Sub(item.At))
		}
		rec.VerifiedAt = item.At
		if err := streams.Put(tx, c.ID, rec, never); err != nil {
			return err
		}
		return put(tx, rec.ID, id, item)
	})
	if err != nil {
		return err
	}
	s.look()
	writeNothing(w)
	return nil
}
