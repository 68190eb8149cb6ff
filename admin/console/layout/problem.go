package layout

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/recovery"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Problem is the reason why an act was not done, for the person who asked for it.
type Problem struct {
	Field string // the wrong field. Empty: none
	Key   string // of the message
	Fill  []any
}

func (p *Problem) Error() string { return "console: " + p.Key }

// fieldOf has the fields of forms by their names in errors of persons and clients.
var fieldOf = map[string]string{
	"username": "username", "email": "email", "emails": "email", "name": "name", "givenName": "given_name",
	"familyName": "family_name", "groups": "group", "permissions": "permissions", "locale": "locale",
}

// problems are the messages for errors.
var problems = []struct {
	err error
	Problem
}{
	{person.ErrNameKept, Problem{Field: "username", Key: "console.problem.name_kept"}},
	{person.ErrUsernameTaken, Problem{Field: "username", Key: "console.problem.taken"}},
	{person.ErrGroupTaken, Problem{Field: "group", Key: "console.problem.group_taken"}},
	{person.ErrNoPerson, Problem{Field: "username", Key: "console.problem.no_person"}},
	{person.ErrNoGroup, Problem{Field: "group", Key: "console.problem.no_group"}},
	{invitation.ErrInvitationsOff, Problem{Key: "console.problem.invitations_off"}},
	{recovery.ErrNoReset, Problem{Key: "console.problem.no_mail"}},
	{challenge.ErrCodesOff, Problem{Key: "console.problem.codes_off"}},
	{person.ErrEmailTaken, Problem{Field: "email", Key: "console.problem.email_taken"}},
	{person.ErrMismatch, Problem{Key: "console.problem.gone"}},
	{mfa.ErrNoMethod, Problem{Key: "console.problem.gone"}},
	{mfa.ErrLastWay, Problem{Key: "console.problem.last_way"}},
	{clientstore.ErrExists, Problem{Field: "client_id", Key: "console.problem.client_taken"}},
	{clientstore.ErrUnknown, Problem{Key: "console.problem.gone"}},
	{clientstore.ErrDeclared, Problem{Key: "console.problem.declared"}},
	{clientstore.ErrChanged, Problem{Key: "console.problem.changed"}},
	{admin.ErrGone, Problem{Key: "console.problem.gone"}},
	{admin.ErrTrying, Problem{Key: "console.problem.trying"}},
	{admin.ErrLate, Problem{Key: "console.problem.late"}},
}

// ProblemOf returns the message about an error for the person who caused it, or nil if they did not.
func ProblemOf(err error) *Problem {
	if err == nil {
		return nil
	}
	if p := new(Problem); errors.As(err, &p) {
		return p
	}
	for i := range problems {
		if errors.Is(err, problems[i].err) {
			return &problems[i].Problem
		}
	}
	if e := new(person.ValidationError); errors.As(err, &e) {
		return &Problem{Field: fieldOf[e.Field], Key: "console.problem.value"}
	}
	if e := new(client.InvalidError); errors.As(err, &e) {
		return &Problem{Key: "console.problem.client", Fill: []any{"reason", web.Foreign(e.Error())}}
	}
	if e := new(challenge.TooSoonError); errors.As(err, &e) {
		return &Problem{Key: "problem.wait", Fill: []any{"time", e.Wait}}
	}
	if errors.As(err, new(*person.StateError)) {
		return &Problem{Key: "console.problem.state"}
	}
	if errors.As(err, new(*person.TooManyError)) {
		return &Problem{Key: "console.problem.too_many"}
	}
	return nil
}

var (
	inMethod = regexp.MustCompile(`^login_methods\.login_methods\[\d+\]\.?`) // the place of a login method in a path
	entry    = regexp.MustCompile(`\[\d+\]$`)                                // the place in a list of texts
)

// problemWords begins the keys of the messages about errors with a code. (package coded)
const problemWords = "console.settings_problem."

// foreign marks the reasons among the values of a message as English.
func foreign(fill []any) []any {
	out := slices.Clone(fill)
	for i := 0; i+1 < len(out); i += 2 {
		if text, ok := out[i+1].(string); ok && out[i] == "reason" {
			out[i+1] = web.Foreign(text)
		}
	}
	return out
}

// Words returns the message of an error that has a code, otherwise the text.
func Words(err error, text string) any {
	if code, fill := coded.Of(err); code != "" {
		return web.Say(problemWords+code, foreign(fill)...)
	}
	return web.Foreign(text)
}

// CodedProblem returns an error with a code as the problem of a field, or nil if it has no code.
func CodedProblem(field string, err error) *Problem {
	code, fill := coded.Of(err)
	if code == "" {
		return nil
	}
	return &Problem{Field: field, Key: problemWords + code, Fill: foreign(fill)}
}

// WordsOf returns the message of a problem of the settings, or its text if it has no code.
func WordsOf(p *jsonapi.Problem) any {
	if p.Code != "" {
		return web.Say(problemWords+p.Code, foreign(p.Fill)...)
	}
	return web.Foreign(p.Problem)
}

// SettingProblem returns an error about settings as the problem of a field. An error without a code keeps the text of
// the API. The path of the wrong member is named, unless it is the field.
func SettingProblem(field string, e *jsonapi.Error) *Problem {
	details, _ := e.Details.([]jsonapi.Problem)
	if len(details) == 0 || details[0].Code == "" {
		if p := CodedProblem(field, e.Words); p != nil {
			return p
		}
		return &Problem{Field: field, Key: "console.problem.setting", Fill: []any{"reason", web.Foreign(e.Message)}}
	}
	first := details[0]
	at := inMethod.ReplaceAllString(first.Path, "")
	if one := entry.ReplaceAllString(at, ""); at != "" && one != field && !strings.HasSuffix(field, "."+one) {
		return &Problem{Field: field, Key: "console.problem.setting_at", Fill: []any{"member", at, "reason", WordsOf(&first)}}
	}
	return &Problem{Field: field, Key: problemWords + first.Code, Fill: foreign(first.Fill)}
}

// Lines returns the words of a field, which are separated by line ends, spaces or commas.
func Lines(s string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' || r == ' ' || r == '\t' }),
		func(w string) bool { return w == "" })
}
