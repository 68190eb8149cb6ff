package command

import (
	"net/http"
	"strconv"

	"github.com/gatehouse-id/gatehouse/identity/enrol"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	maxImported = 500 // persons of one request
	maxPersons  = 500 // of one page, of groups too
)

// importRequest is a part of an import.
type importRequest struct {
	Persons []person.ImportedPerson `json:"persons"`
	Update  bool                    `json:"update,omitempty"`
}

// importAnswer holds the result for each person, in their order.
type importAnswer struct {
	Results []person.Imported `json:"results"`
}

func adminImport(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in importRequest
	if err := body(r, &in); err != nil {
		return nil, err
	}
	if len(in.Persons) > maxImported {
		return nil, badRequestf("more than %d persons in one request", maxImported)
	}
	results, err := i.Identity.Person.Import(r.Context(), in.Persons, in.Update, caller(r))
	if err != nil {
		return nil, err
	}
	return importAnswer{results}, nil
}

func adminInvite(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in enrol.NewInvitation
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return i.Identity.Enrol.Invite(r.Context(), in, caller(r))
}

func adminInviteAgain(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person string `json:"person"`
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return i.Identity.Enrol.InviteAgain(r.Context(), in.Person, caller(r))
}

// codeRequest is the body that `caddy gatehouse person code` sends.
type codeRequest struct {
	Person string `json:"person"` // username or id
	For    string `json:"for"`
}

func adminMakeCode(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in codeRequest
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return i.Identity.Proof.MakeDeliveredCode(r.Context(), in.Person, in.For, caller(r))
}

func adminAddPerson(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var p person.NewPerson
	if err := body(r, &p); err != nil {
		return nil, err
	}
	return i.Identity.Person.AddPerson(r.Context(), p, caller(r))
}

// personsPage is one page of persons in the order of their usernames.
type personsPage struct {
	Items []person.Person `json:"items"`
	Next  string          `json:"next,omitempty"` // the value of after for the next page
}

func adminListPersons(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	limit := 100
	if s := r.URL.Query().Get("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > maxPersons {
			return nil, badRequestf("limit is not between 1 and %d", maxPersons)
		}
	}
	list, err := i.Identity.Person.ListPersons(r.Context(), r.URL.Query().Get("after"), limit)
	if err != nil {
		return nil, err
	}
	page := personsPage{Items: list}
	if list == nil {
		page.Items = []person.Person{}
	}
	if len(list) == limit {
		last := list[len(list)-1]
		if page.Next, err = i.Identity.Person.InPartition(i.Identity.Person.PartitionOf(last), last.Username); err != nil {
			return nil, err
		}
	}
	return page, nil
}

func adminSetPassword(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person   string        `json:"person"`
		Password secret.String `json:"password"`
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return outcome{"changed"}, i.Identity.Person.SetPassword(r.Context(), in.Person, in.Password, caller(r))
}

func adminSetState(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person string       `json:"person"`
		State  person.State `json:"state"`
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return outcome{string(in.State)}, i.Identity.Person.SetState(r.Context(), in.Person, in.State, caller(r))
}

func adminRemoveStepUp(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person string `json:"person"`
		Remove string `json:"remove"`
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	return outcome{"removed"}, i.Identity.StepUp.RemoveStepUp(r.Context(), in.Person, in.Remove, caller(r))
}

// withdrawal is the answer of a consent that was withdrawn.
type withdrawal struct {
	Grants int `json:"grants"` // how many of the client's grants ended
}

func adminWithdrawConsent(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in struct {
		Person string `json:"person"`
		Client string `json:"client"`
	}
	if err := body(r, &in); err != nil {
		return nil, err
	}
	person, err := i.Identity.Person.Person(r.Context(), in.Person)
	if err != nil {
		return nil, err
	}
	n, err := i.Authz.WithdrawConsent(r.Context(), person.ID, in.Client, caller(r))
	return withdrawal{n}, err
}
