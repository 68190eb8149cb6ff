package console

import (
	"bytes"
	"io"
	"net/url"
	"slices"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

func (c *Console) askVerify(v *layout.Visit) (layout.Question, error) {
	email := shownPerson(v).Email
	return layout.Question{Fill: []any{"email", email}, Hidden: []web.Hidden{{Name: "email", Value: email}}}, nil
}

// verify marks the e-mail address that the page has shown as the person's own.
func (c *Console) verify(v *layout.Visit, in url.Values) (layout.Result, error) {
	verified, email := true, in.Get("email")
	return layout.Result{}, c.Manage.ChangePerson(v.Context(), shownPerson(v).ID, admin.PersonChange{EmailVerified: &verified}, v.Actor(),
		func(_ storage.Tx, d *person.Details) error {
			if d.Profile.PrimaryEmail().Value != email {
				return &layout.Problem{Key: "console.problem.changed"}
			}
			return nil
		})
}

// codePurpose is the purpose of a one-time code for each state of a person.
var codePurpose = map[person.State]challenge.DeliveredPurpose{
	person.Active: challenge.DeliveredStepUp, person.Invited: challenge.DeliveredInvitation, person.Inactive: challenge.DeliveredActivation,
}

// canHaveCode reports whether a code would be good for anything.
func canHaveCode(v *layout.Visit) bool {
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
func (c *Console) makeCode(v *layout.Visit, _ url.Values) (layout.Result, error) {
	made, err := c.Identity.Proof.MakeDeliveredCode(v.Context(), shownPerson(v).ID, string(codePurpose[shownPerson(v).State]), v.Actor())
	if err != nil {
		return layout.Result{}, err
	}
	out := &web.Console{
		Title: web.Say("console.act.code"), Up: v.Up(),
		Parts: []web.ConsolePart{{Secret: &web.Secret{
			Text:  web.Say("console.code.once", "name", v.Called, "time", made.ExpiresAt),
			Value: made.Code,
		}}},
	}
	if made.NotBefore != nil {
		out.Lead = web.Say("console.code.after", "time", *made.NotBefore)
	}
	return layout.Result{Page: out}, nil
}

func (c *Console) askUnlink(v *layout.Visit) (layout.Question, error) {
	id, hidden := v.Chosen("provider")
	what := "—"
	if i := slices.IndexFunc(shownPerson(v).Linked, func(l admin.Linked) bool { return l.Provider == id }); i >= 0 {
		what = shownPerson(v).Linked[i].Name
	}
	return layout.Question{Hidden: hidden, Fill: []any{"what", what}}, nil
}

// unlink takes an account elsewhere from the person.
func (c *Console) unlink(v *layout.Visit, in url.Values) (layout.Result, error) {
	return layout.Result{}, c.Identity.Account.Unlink(v.Context(), shownPerson(v).ID, in.Get("provider"), v.Actor())
}

// downloadData is the file that the person can download of themselves.
func (c *Console) downloadData(v *layout.Visit, _ url.Values) (layout.Result, error) {
	raw, err := c.Identity.Account.Export(v.Context(), shownPerson(v).ID, v.Actor())
	return layout.Result{File: &layout.File{
		Name: "account-" + shownPerson(v).ID + ".json", Type: "application/json",
		Write: func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(raw))
			return err
		},
	}}, err
}

// trustedPart is which browsers count for the second factor of the person.
func (c *Console) trustedPart(v *layout.Visit) web.ConsolePart {
	t := &web.Table{
		Label: web.Say("device.trusted"),
		Columns: []string{
			"console.column.device", "console.column.address", "console.column.since", "console.column.seen",
			"console.column.until", "console.column.action",
		},
	}
	for _, b := range shownPerson(v).TrustedBrowsers {
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			{Text: webflow.AgentText(b.UserAgent)},
			{Name: b.ClientIP},
			{Text: web.Say("console.time", "time", b.TrustedAt)},
			{Text: web.Say("console.time", "time", b.LastUsedAt)},
			{Text: web.Say("console.time", "time", b.ExpiresAt)},
			v.Link("untrust", "browser", b.ID),
		}})
	}
	return web.ConsolePart{ID: "trusted", Title: web.Say("device.trusted"), Text: web.Say("console.person.trusted.text"), Table: t}
}

func askUntrust(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fill: []any{"n", len(shownPerson(v).TrustedBrowsers)}}, nil
}

// untrust ends the trust in one browser of the person.
func (c *Console) untrust(v *layout.Visit, in url.Values) (layout.Result, error) {
	return layout.Result{}, c.Manage.Untrust(v.Context(), shownPerson(v).ID, layout.Part(in, "browser"), v.Actor())
}

// untrustAll ends it in all of them. Their sessions go on.
func (c *Console) untrustAll(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, c.Manage.Untrust(v.Context(), shownPerson(v).ID, "", v.Actor())
}
