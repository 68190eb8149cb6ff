package adminapi

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	maxImported = 500 // persons of one request
	// MaxPersons is the maximum number of items on one page.
	MaxPersons = 500
)

// importRequest is a part of an import.
type importRequest struct {
	Persons []ldapmigration.Person `json:"persons"`
	Update  bool                   `json:"update,omitempty"`
	Check   bool                   `json:"check,omitempty"` // write nothing
}

// ImportAnswer holds the result for each person, in their order.
type ImportAnswer struct {
	Results []ldapmigration.Result `json:"results"`
}

func adminImport(i *Instance, r *http.Request, in importRequest) (any, error) {
	if len(in.Persons) > maxImported {
		return nil, badRequestf("more than %d persons in one request", maxImported)
	}
	results, err := i.Identity.Migration.Import(r.Context(), in.Persons, ldapmigration.How{Update: in.Update, Check: in.Check}, caller(r))
	if err != nil {
		return nil, err
	}
	return ImportAnswer{results}, nil
}

func adminInvite(i *Instance, r *http.Request, in invitation.NewInvitation) (any, error) {
	return i.Identity.Invitation.Invite(r.Context(), in, caller(r))
}

func adminInviteAgain(i *Instance, r *http.Request, in PersonRequest) (any, error) {
	out, err := i.Identity.Invitation.InviteAgain(r.Context(), in.Person, caller(r))
	return out, i.aboutPerson(r, in.Person, err)
}

// CodeRequest is the body that `caddy gatehouse person code` sends.
type CodeRequest struct {
	Person string `json:"person"` // username or id
	For    string `json:"for"`
}

func adminMakeCode(i *Instance, r *http.Request, in CodeRequest) (any, error) {
	out, err := i.Identity.Proof.MakeDeliveredCode(r.Context(), in.Person, in.For, caller(r))
	return out, i.aboutPerson(r, in.Person, err)
}

func adminAddPerson(i *Instance, r *http.Request, p person.NewPerson) (any, error) {
	return i.Identity.Person.AddPerson(r.Context(), p, caller(r))
}

// personFilter selects persons of a list.
type personFilter struct{ match, group, state string }

func (f personFilter) selects(p person.Person) bool {
	return (f.match == "" || strings.Contains(strings.ToLower(strings.Join([]string{
		p.ID, Typed(p), p.Name, p.GivenName, p.FamilyName,
		p.Email,
	}, "\n")), f.match)) &&
		(f.group == "" || slices.Contains(p.Groups, f.group)) &&
		(f.state == "" || strings.EqualFold(string(p.State), f.state))
}

// adminListPersons answers a page of persons by username. The parameters match (a part of username, name, e-mail or
// id), group and state select some of them; limit and after page.
func adminListPersons(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	q := r.URL.Query()
	limit, err := pageSize(q.Get("limit"))
	if err != nil {
		return nil, err
	}
	f := personFilter{strings.ToLower(q.Get("match")), q.Get("group"), q.Get("state")}
	page, after := Page[person.Person]{Items: []person.Person{}}, q.Get("after")
	for {
		list, err := i.Identity.Person.ListPersons(r.Context(), after, MaxPersons)
		if err != nil {
			return nil, err
		}
		for n, p := range list {
			if f.selects(p) {
				page.Items = append(page.Items, p)
			}
			if len(page.Items) == limit && (n < len(list)-1 || len(list) == MaxPersons) {
				page.Next, err = i.place(p)
				return page, err
			}
		}
		if len(list) < MaxPersons {
			return page, nil
		}
		if after, err = i.place(list[len(list)-1]); err != nil {
			return nil, err
		}
	}
}

// place returns what continues a list of persons after one of them.
func (i *Instance) place(p person.Person) (after string, err error) {
	return i.Identity.Person.InPartition(i.Identity.Person.PartitionOf(p), p.Username)
}

// passwordRequest is a new password of a person.
type passwordRequest struct {
	Person   string        `json:"person"`
	Password secret.String `json:"password"`
}

func adminSetPassword(i *Instance, r *http.Request, in passwordRequest) (any, error) {
	return Outcome{"changed"}, i.aboutPerson(r, in.Person, i.Identity.Person.SetPassword(r.Context(), in.Person, in.Password, caller(r)))
}

// StateRequest blocks, unblocks or removes a person.
type StateRequest struct {
	Person string       `json:"person"`
	State  person.State `json:"state"`
	// Until is the time when a block ends by itself. Zero: it does not. Reason stands in the event of a block.
	Until  time.Time `json:"until,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

func adminSetState(i *Instance, r *http.Request, in StateRequest) (any, error) {
	by := caller(r)
	if in.State == person.Blocked {
		by.Reason = in.Reason
		return Outcome{string(in.State)}, i.aboutPerson(r, in.Person, i.Identity.Person.Block(r.Context(), in.Person, in.Until, by))
	}
	return Outcome{string(in.State)}, i.aboutPerson(r, in.Person, i.Identity.Person.SetState(r.Context(), in.Person, in.State, by))
}

// stepUpRequest names a step-up method of a person, to remove it.
type stepUpRequest struct {
	Person string `json:"person"`
	Remove string `json:"remove"`
	Mail   bool   `json:"mail"` // whether the person is told by e-mail
}

func adminRemoveStepUp(i *Instance, r *http.Request, in stepUpRequest) (any, error) {
	return Outcome{"removed"}, i.aboutPerson(r, in.Person, i.Identity.StepUp.RemoveStepUp(r.Context(), in.Person,
		mfa.Removal{Method: in.Remove, Mail: in.Mail}, caller(r)))
}

// Withdrawal is the answer of a consent that was withdrawn.
type Withdrawal struct {
	Grants int `json:"grants"` // how many of the client's grants ended
}

// consentRequest names what a person has allowed a client.
type consentRequest struct {
	Person string `json:"person"`
	Client string `json:"client"`
}

func adminWithdrawConsent(i *Instance, r *http.Request, in consentRequest) (any, error) {
	person, err := i.person(r, in.Person)
	if err != nil {
		return nil, err
	}
	n, err := i.Authz.WithdrawConsent(r.Context(), person.ID, in.Client, caller(r))
	return Withdrawal{n}, err
}
