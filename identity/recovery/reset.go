package recovery

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	linkReset challenge.LinkKind = "reset"

	resetPath     = "/reset"
	resetDonePath = resetPath + "/done"
)

// resetRequest is a request of the page for a new password, which a link has opened.
type resetRequest struct {
	webflow.Detour
	*challenge.OpenLink

	username string
	names    []string // that a new password must not repeat
	vouched  string   // who else can have read the link, as in audit.Actor
}

// openReset reads the link of the request, its person, and the sign-in that it was sent for.
func (s *Service) openReset(q *webflow.Request) (x resetRequest, err error) {
	x.U = q.Settings
	off, now := !s.offersReset(x.U), s.deps.Now()
	x.OpenLink, err = s.deps.Front.LinkIn(q, linkReset, s.forgotURL(x.U), func(tx storage.Tx, o *challenge.OpenLink) error {
		if off && o.Record.Data[handedOver] == "" {
			return webflow.NotFound()
		}
		p, err := person.Records.Get(tx, o.Record.PersonID)
		if err != nil {
			return err
		}
		prof, err := person.ReadProfile(tx, o.Record.PersonID, &p)
		if err != nil {
			return err
		}
		x.names = person.NamesOf(&p, &prof.Profile)
		to, number := o.Record.Data[challenge.LinkTo], o.Record.Data[challenge.LinkNumber]
		x.vouched = cmp.Or(o.Record.Data[handedBy], person.Contact{Kind: person.ContactEmail, Value: to}.SetBy(&prof.Profile),
			person.Contact{Kind: person.ContactPhone, Value: number}.SetBy(&prof.Profile))
		if x.username, err = s.deps.Person.InPartition(p.PartitionName(), p.Username); err != nil {
			return err
		}
		x.ID, x.Flow, err = s.deps.Front.SignInIn(tx, q, o.Record.Data[webflow.LinkFlow], now)
		return err
	})
	if err == nil {
		q.Again = resetPath
	}
	if off && errors.As(err, new(*webflow.Answer)) {
		err = webflow.NotFound()
	}
	return x, err
}

// showReset serves GET /reset: the page for a new password.
func (s *Service) showReset(q *webflow.Request) error {
	x, err := s.openReset(q)
	if err != nil {
		return err
	}
	return s.renderReset(q, x, http.StatusOK, "")
}

func (s *Service) renderReset(q *webflow.Request, x resetRequest, status int, problem string) error {
	// Password managers store the two together.
	username := web.Field{
		Name: "username", Label: "sign_in.username", Value: x.username, Autocomplete: "username", ReadOnly: true,
	}
	return s.deps.Front.RenderForm(q, x.Detour, x.Form(), status, web.Form{
		Key: "reset", Action: resetPath, Fields: web.Fields(false, username, webflow.NewPasswordField(&x.U.PasswordPolicy, problem)),
	})
}

// handleReset serves POST /reset: the person gets the new password, the link is used up, and all sessions and tokens
// end.
func (s *Service) handleReset(q *webflow.Request) error {
	x, err := s.openReset(q)
	if err == nil {
		err = s.deps.Front.CheckLink(q, x.OpenLink)
	}
	if err != nil {
		return err
	}
	password := q.PostForm.Get("password")
	if password == "" {
		return s.renderReset(q, x, http.StatusUnprocessableEntity, "problem.password")
	}
	err = s.reset(q.Context(), x, password, s.deps.Origin(q.Request))
	switch problem := webflow.PasswordProblem(err); {
	case err == nil:
		s.deps.Jar.Clear(q.W, challenge.LinkCookieOf(linkReset))
		if next := x.Record.Data[leadsTo]; next != "" {
			return q.Redirect(next)
		}
		if !s.offersReset(x.U) { // a link that was handed over, see HandReset
			return q.Redirect(webflow.SignInURL(x.ID))
		}
		return q.Redirect(webflow.WithSignIn(resetDonePath, x.ID))
	case problem != "":
		return s.renderReset(q, x, http.StatusUnprocessableEntity, problem)
	case errors.Is(err, challenge.ErrNoLink), errors.Is(err, person.ErrNoPerson):
		return s.deps.Front.LinkError(q, linkReset, s.forgotURL(x.U), challenge.ErrNoLink)
	}
	return err
}

func (s *Service) reset(ctx context.Context, x resetRequest, password string, from audit.Origin) error {
	by := audit.Actor{ID: x.Record.PersonID, Name: x.username, Origin: from, Vouched: x.vouched}
	fresh, err := s.deps.Person.PreparePassword(ctx, password, by, x.names...)
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(from, passwordReset)
	if err != nil {
		return err
	}
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		link, err := s.deps.Proof.SpendLink(tx, linkReset, x.Token, fresh.Now)
		if err != nil {
			return err
		}
		rec, err := s.deps.Person.ReplacePassword(tx, link.PersonID, fresh)
		if err != nil {
			return err
		}
		if err := s.notifyReset(tx, link.PersonID, &rec, fresh); err != nil {
			return err
		}
		if err := s.clearFailures(tx, link.PersonID, from); err != nil {
			return err
		}
		if x.ID != "" { // the sign-in that continues now
			err := webflow.ChangeFlowIn(tx, x.ID, func(f *webflow.FlowRecord) { f.Typed = x.username })
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
		}
		e := by.Fill(ev[0], link.PersonID, "")
		e.Partition = rec.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
}

// notifyReset tells the person about the new password, unless another notice does.
func (s *Service) notifyReset(tx storage.Tx, id string, rec *person.Record, n *person.HashedPassword) error {
	u, err := s.deps.Person.Switches(tx)
	if err != nil || !u.PasswordReset || person.HearsOf(u, n.Kind) {
		return err
	}
	prof, err := person.ReadProfile(tx, id, rec)
	if err != nil {
		return err
	}
	t := person.Recipient{ID: id, Record: rec, Profile: &prof.Profile}
	return s.deps.Person.SendNotice(tx, t.Notice(notify.PasswordReset, n.Now))
}

// clearFailures forgets the wrong passwords of a person with a new one: the guesses of strangers must not delay the
// person now.
func (s *Service) clearFailures(tx storage.Tx, id string, from audit.Origin) error {
	for _, c := range s.deps.Proof.Counters("person:"+id, challenge.Source{Address: from.ClientIP, Many: true}, false) {
		if err := challenge.FailureRecords.Delete(tx, c.Key); err != nil {
			return err
		}
	}
	return nil
}

// showResetDone serves GET /reset/done?flow=…: the way to sign in with the new password.
func (s *Service) showResetDone(q *webflow.Request) error {
	a, err := s.deps.Front.DetourOf(q, forgotPath, s.offersReset)
	if err != nil {
		return err
	}
	return s.deps.Front.RenderForm(q, a, "", http.StatusOK, web.Form{Key: "reset_done", Next: webflow.SignInURL(a.ID)})
}
