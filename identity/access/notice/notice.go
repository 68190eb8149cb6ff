// Package notice sends the e-mails about requested access: to operators when someone asks, and to the person when it is
// decided. (docs/decisions/gateway.md#requested-access)
package notice

import (
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Config says who is told that someone asks for access. No one need be.
type Config struct {
	Addresses []string
	Groups    []string // their members, by verified addresses
	// Page returns the path of the page of a request, or "" while the console is off. nil: it always is
	Page func(tx storage.Tx, requestID string) (string, error)
}

const (
	maxReaders = 20 // of one request
	window     = time.Hour
	perWindow  = 20 // requests that operators are told of in an hour
)

// Notices sends them. It implements what access.Deps.Tell is.
type Notices struct {
	cfg     Config
	persons *person.Service
}

// New returns notices to persons, and to the operators of a Config.
func New(c Config, persons *person.Service) *Notices { return &Notices{c, persons} }

// Tell sends what an open, granted or refused request calls for, in the transaction of its cause.
func (n *Notices) Tell(tx storage.Tx, r access.Request, now time.Time) error {
	switch r.State {
	case access.Open:
		return n.tellOperators(tx, r, now)
	case access.Granted:
		return n.tellPerson(tx, r, notify.AccessGranted, now)
	case access.Refused:
		return n.tellPerson(tx, r, notify.AccessRefused, now)
	case access.Revoked:
	}
	return nil
}

// host is a site as people know it.
func host(site string) string {
	_, out, _ := strings.Cut(site, "://")
	return out
}

func (n *Notices) tellPerson(tx storage.Tx, r access.Request, kind notify.Kind, now time.Time) error {
	to, err := recipient(tx, r.Person)
	if err != nil || to == nil {
		return err
	}
	out := to.Notice(kind, now)
	out.Data["site"], out.Data["note"], out.Until = host(r.Site), r.Note, r.Ends
	if kind == notify.AccessGranted {
		out.Link = r.Site + "/"
	}
	return n.persons.SendNotice(tx, out)
}

// recipient returns an active person, or nil.
func recipient(tx storage.Tx, personID string) (*person.Recipient, error) {
	rec, found, err := person.Records.Find(tx, personID)
	if err != nil || !found || rec.State != person.Active {
		return nil, err
	}
	prof, err := person.ReadProfile(tx, personID, &rec)
	return &person.Recipient{ID: personID, Record: &rec, Profile: &prof.Profile}, err
}

// tellOperators tells all readers of one request, unless there were many in the last hour.
func (n *Notices) tellOperators(tx storage.Tx, r access.Request, now time.Time) error {
	readers, err := n.readers(tx, now)
	if err != nil || len(readers) == 0 {
		return err
	}
	if due, err := count(tx, now); err != nil || !due {
		return err
	}
	data := map[string]string{"site": host(r.Site), "person": r.Username}
	if !notify.IsAddress(r.Username) && !notify.IsPlain(r.Username) {
		data["person"] = r.Person
	}
	if notify.IsPlain(r.Reason) { // else it could lead operators to another place
		data["note"] = r.Reason
	}
	page := ""
	if n.cfg.Page != nil {
		if page, err = n.cfg.Page(tx, r.ID); err != nil {
			return err
		}
	}
	for _, out := range readers {
		out.Data, out.Link = data, page
		if err := n.persons.SendNotice(tx, out); err != nil {
			return err
		}
	}
	return nil
}

// readers returns a notice without words to each operator, once to each address.
func (n *Notices) readers(tx storage.Tx, now time.Time) (out []notify.Notice, err error) {
	known := map[string]bool{}
	add := func(to notify.Notice) {
		if address := person.FoldEmail(to.To); to.To != "" && !known[address] && len(out) < maxReaders {
			known[address] = true
			out = append(out, to)
		}
	}
	for _, address := range n.cfg.Addresses {
		add(notify.Notice{Kind: notify.AccessRequested, To: address, At: now})
	}
	for _, name := range n.cfg.Groups {
		group, err := n.persons.Group(tx, "", name)
		if errors.Is(err, person.ErrNoGroup) {
			continue
		}
		if err != nil {
			return nil, err
		}
		members, err := n.persons.Members(tx, group.ID, "", maxReaders)
		if err != nil {
			return nil, err
		}
		for _, id := range members {
			to, err := recipient(tx, id)
			if err != nil {
				return nil, err
			}
			if to != nil {
				to.VerifiedOnly = true
				add(to.Notice(notify.AccessRequested, now))
			}
		}
	}
	return out, nil
}

// count counts a request that operators are told of, and reports whether they are.
func count(tx storage.Tx, now time.Time) (bool, error) {
	rec, found, err := counts.Find(tx, "all")
	if err != nil {
		return false, err
	}
	if !found || !rec.Since.Add(window).After(now) {
		rec = countRecord{Since: now}
	}
	if rec.Told >= perWindow {
		return false, nil
	}
	rec.Told++
	return true, counts.Put(tx, "all", rec, rec.Since.Add(window))
}
