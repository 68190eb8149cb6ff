package console

import (
	"bytes"
	"io"
	"net/url"
	"slices"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

func (c *Console) askVerify(v *frame.Visit) (frame.Question, error) {
	email := shownPerson(v).Email
	return frame.Question{Fill: []any{"email", email}, Hidden: []page.Hidden{{Name: "email", Value: email}}}, nil
}

// verify marks the e-mail address that the page has shown as the person's own.
func (c *Console) verify(v *frame.Visit, in url.Values) (frame.Result, error) {
	verified, email := true, in.Get("email")
	return frame.Result{}, c.Manage.ChangePerson(v.Context(), shownPerson(v).ID, manage.PersonChange{EmailVerified: &verified}, v.Actor(), func(_ storage.Tx, d *person.Details) error {
		if d.Profile.PrimaryEmail().Value != email {
			return &frame.Problem{Key: "console.problem.changed"}
		}
		return nil
	})
}

// codePurpose is what a one-time code is good for in the state of a person.
var codePurpose = map[person.State]proof.DeliveredPurpose{
	person.Active: proof.DeliveredStepUp, person.Invited: proof.DeliveredInvitation, person.Inactive: proof.DeliveredActivation,
}

// canHaveCode tells whether a code would be good for anything.
func canHaveCode(v *frame.Visit) bool {
	f := &v.Settings.Features
	switch shownPerson(v).State {
	case person.Active:
		return f.ExternallyDeliveredCodeStepUp.Enabled
	case person.Invited:
		return f.AcceptingInvitationEnabled && f.InvitationVerificationRequired.ViaExternallyDeliveredCodeEnabled
	case person.Inactive:
		return f.PersonActivation.Enabled && f.PersonActivation.Type == person.ActivationByCode
	}
	return false
}

// makeCode shows a one-time code once: for a first sign-in, or in place of a method that was lost.
func (c *Console) makeCode(v *frame.Visit, _ url.Values) (frame.Result, error) {
	made, err := c.Identity.Proof.MakeDeliveredCode(v.Context(), shownPerson(v).ID, string(codePurpose[shownPerson(v).State]), v.Actor())
	if err != nil {
		return frame.Result{}, err
	}
	out := &page.Console{
		Title: page.Say("console.act.code"), Up: v.Up(),
		Parts: []page.ConsolePart{{Secret: &page.Secret{Text: page.Say("console.code.once", "name", v.Called, "time", made.ExpiresAt), Value: made.Code}}},
	}
	if made.NotBefore != nil {
		out.Lead = page.Say("console.code.after", "time", *made.NotBefore)
	}
	return frame.Result{Page: out}, nil
}

func (c *Console) askUnlink(v *frame.Visit) (frame.Question, error) {
	id, hidden := v.Chosen("provider")
	what := "—"
	if i := slices.IndexFunc(shownPerson(v).Linked, func(l manage.Linked) bool { return l.Provider == id }); i >= 0 {
		what = shownPerson(v).Linked[i].Name
	}
	return frame.Question{Hidden: hidden, Fill: []any{"what", what}}, nil
}

// unlink takes an account elsewhere from the person.
func (c *Console) unlink(v *frame.Visit, in url.Values) (frame.Result, error) {
	return frame.Result{}, c.Identity.Account.Unlink(v.Context(), shownPerson(v).ID, in.Get("provider"), v.Actor())
}

// downloadData is the file that the person can download of themselves.
func (c *Console) downloadData(v *frame.Visit, _ url.Values) (frame.Result, error) {
	raw, err := c.Identity.Account.Export(v.Context(), shownPerson(v).ID, v.Actor())
	return frame.Result{File: &frame.File{
		Name: "account-" + shownPerson(v).ID + ".json", Type: "application/json",
		Write: func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(raw))
			return err
		},
	}}, err
}

// trustedPart is which browsers count for the second factor of the person.
func (c *Console) trustedPart(v *frame.Visit) page.ConsolePart {
	t := &page.Table{Label: page.Say("device.trusted"), Columns: []string{"console.column.device", "console.column.address", "console.column.since", "console.column.seen", "console.column.until", "console.column.action"}}
	for _, b := range shownPerson(v).TrustedBrowsers {
		t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{
			{Text: front.AgentText(b.UserAgent)},
			{Name: b.ClientIP},
			{Text: page.Say("console.time", "time", b.TrustedAt)},
			{Text: page.Say("console.time", "time", b.LastUsedAt)},
			{Text: page.Say("console.time", "time", b.ExpiresAt)},
			v.Link("untrust", "browser", b.ID),
		}})
	}
	return page.ConsolePart{ID: "trusted", Title: page.Say("device.trusted"), Text: page.Say("console.person.trusted.text"), Table: t}
}

func askUntrust(v *frame.Visit) (frame.Question, error) {
	return frame.Question{Fill: []any{"n", len(shownPerson(v).TrustedBrowsers)}}, nil
}

// untrust ends the trust in one browser of the person.
func (c *Console) untrust(v *frame.Visit, in url.Values) (frame.Result, error) {
	return frame.Result{}, c.Manage.Untrust(v.Context(), shownPerson(v).ID, frame.Part(in, "browser"), v.Actor())
}

// untrustAll ends it in all of them. Their sessions go on.
func (c *Console) untrustAll(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{}, c.Manage.Untrust(v.Context(), shownPerson(v).ID, "", v.Actor())
}
