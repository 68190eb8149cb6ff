package recovery

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	forgotPath     = "/forgot"
	forgotSentPath = forgotPath + "/sent"

	resetLife        = 30 * time.Minute
	resetsPerPerson  = 5  // e-mails in a window, so strangers cannot fill a mailbox
	resetsPerAddress = 30 // requests in a window
	maxAccounts      = 5  // with one e-mail address that get a message
)

// mailForm is the form for a link in an e-mail.
func (s *Service) mailForm() *forgotForm {
	return &forgotForm{
		key: "forgot", path: forgotPath, next: forgotSentPath, exists: s.offersMailReset, field: accountField,
		links: func(a webflow.Detour) (list []web.FormLink) {
			if s.offersTextReset(a.U) {
				list = append(list, web.FormLink{Label: "forgot.text_message", URL: webflow.WithSignIn(forgotTextPath, a.ID)})
			}
			return append(list, s.reminderLinks(a)...)
		},
	}
}

// showForgot serves GET /forgot?flow=…: it asks for the username.
func (s *Service) showForgot(q *webflow.Request) error { return s.showForgotForm(q, s.mailForm()) }

// handleForgot serves POST /forgot?flow=….
func (s *Service) handleForgot(q *webflow.Request) error {
	return s.handleForgotForm(q, s.mailForm(), func(q *webflow.Request, a webflow.Detour, typed string) (time.Duration, error) {
		return s.sendResets(q.Context(), typed, a.ID, s.deps.Origin(q.Request))
	})
}

// showForgotSent serves GET /forgot/sent?flow=…: what happens next, whether the person exists or not.
func (s *Service) showForgotSent(q *webflow.Request) error {
	a, err := s.deps.Front.DetourOf(q, forgotPath, s.offersMailReset)
	if err != nil {
		return err
	}
	return s.deps.Front.RenderForm(q, a, "", http.StatusOK, web.Form{
		Key: "forgot_sent", Next: webflow.SignInURL(a.ID),
		Links: []web.FormLink{{Label: "forgot_sent.again", URL: webflow.WithSignIn(forgotPath, a.ID)}},
	})
}

// sendResets sends a link for a new password to the persons that the username or address belongs to. For an unknown one
// the same work is done, but the link never works and the notice is not sent. wait is how long nothing is accepted from
// this address.
func (s *Service) sendResets(ctx context.Context, typed, flow string, from audit.Origin) (wait time.Duration, err error) {
	ev, err := s.deps.Person.NewEvents(from, slices.Repeat([]audit.Type{passwordResetRequested}, maxAccounts)...)
	if err != nil {
		return 0, err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		wait, err = s.deps.Proof.CountRequest(tx, "reset-address", challenge.Network(from.ClientIP), resetsPerAddress, now)
		if err != nil || wait > 0 {
			return err
		}
		list, err := s.findRecipients(tx, typed)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			list = []person.Recipient{{}}
		}
		for i, t := range list {
			if err := s.sendReset(tx, t, typed, flow, ev[i], now); err != nil {
				return err
			}
		}
		return nil
	})
	return wait, err
}

// findRecipients returns the person with a username, or the persons who read an e-mail address.
func (s *Service) findRecipients(tx storage.Tx, typed string) ([]person.Recipient, error) {
	if person.IsID(typed) {
		return nil, nil
	}
	id, rec, err := s.deps.Person.Find(tx, typed)
	if err == nil {
		t, err := s.deps.Proof.LinkReached(tx, id, &rec)
		return []person.Recipient{t}, err
	}
	if !errors.Is(err, person.ErrNoPerson) {
		return nil, err
	}
	partition, address, ok := s.deps.Person.SplitName(typed)
	if !ok || !person.IsEmail(address) {
		return nil, nil
	}
	ids, err := person.ActorBy(tx, person.EmailIndex, partition, person.FoldEmail(address))
	if err != nil {
		return nil, err
	}
	var out []person.Recipient
	for _, id := range ids {
		rec, err := person.Records.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := s.deps.Proof.LinkReached(tx, id, &rec)
		if err != nil {
			return nil, err
		}
		if person.FoldEmail(t.Address()) == person.FoldEmail(address) && len(out) < maxAccounts {
			out = append(out, t)
		}
	}
	return out, nil
}

// sendReset sends one person the link, or the names of the providers to a person without a password. The same work is
// done if no e-mail is sent.
func (s *Service) sendReset(tx storage.Tx, t person.Recipient, typed, flow string, e audit.Event, now time.Time) error {
	holder := t.ID // of the link
	if holder == "" {
		holder = "name:" + secret.Hash(s.deps.Person.FoldTyped(typed))
	}
	wait, err := s.deps.Proof.CountRequest(tx, "reset-person", holder, resetsPerPerson, now)
	if err != nil {
		return err
	}
	n, err := s.resetNotice(tx, t, now)
	if err != nil {
		return err
	}
	if wait > 0 || n.Kind != notify.ResetLink {
		holder = "nobody:" + secret.Hash(holder) // the previous link of the person stays
	}
	if wait > 0 {
		n.Kind = notify.Nothing
	}
	data := map[string]string{challenge.LinkTo: n.To, webflow.LinkFlow: flow}
	path, err := s.deps.Proof.NewLink(tx, linkReset, holder, data, resetLife, now)
	if err != nil {
		return err
	}
	if n.Kind != notify.ResetNoPassword {
		n.Link = path
	}
	if err := s.deps.Notify.Send(tx, n); err != nil {
		return err
	}
	return s.appendRequest(tx, t, e, "")
}

// appendRequest records that a new password was requested, for an unknown person as well.
func (s *Service) appendRequest(tx storage.Tx, t person.Recipient, e audit.Event, reason string) error {
	e.PersonID, e.Reason = t.ID, reason
	if t.Record != nil {
		e.Partition = t.Record.PartitionName()
	}
	return s.deps.Events.Append(tx, e)
}

// resetNotice is the answer to a person who asked for a new password: the link, the providers that sign the person in,
// or nothing.
func (s *Service) resetNotice(tx storage.Tx, t person.Recipient, now time.Time) (notify.Notice, error) {
	const nobody = "nobody@example.invalid"
	nothing := notify.Notice{Kind: notify.Nothing, To: nobody, At: now, Data: map[string]string{"username": nobody}}
	if t.ID == "" || t.Address() == "" || (t.Record.State != person.Active && t.Record.State != person.Inactive) {
		return nothing, nil
	}
	has, err := person.Passwords.Has(tx, t.ID)
	if err != nil {
		return nothing, err
	}
	names, err := s.providersOf(tx, t.ID, t.Record)
	if err != nil {
		return nothing, err
	}
	if has || len(names) == 0 {
		return t.Notice(notify.ResetLink, now), nil
	}
	u, err := s.deps.Units(tx)
	if err != nil || !u.EmailNotifications.PasswordResetForAccountWithoutPassword {
		return nothing, err
	}
	n := t.Notice(notify.ResetNoPassword, now)
	n.Data["provider"], n.Link = strings.Join(names, ", "), "/sign-in"
	return n, nil
}

// providersOf returns the names of the providers that sign a person in.
func (s *Service) providersOf(tx storage.Tx, id string, rec *person.Record) (names []string, err error) {
	add := func(provider string) {
		if name := s.deps.Federation.ProviderName(provider); !s.deps.Federation.IsLeft(provider) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if rec.External != "" {
		add(storage.Parts(rec.External)[0])
	}
	for e, err := range person.IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(id)}) {
		if err != nil {
			return nil, err
		}
		add(storage.Parts(e.Key)[1])
	}
	return names, nil
}
