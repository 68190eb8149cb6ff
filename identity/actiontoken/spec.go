package actiontoken

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// The types of actions. (identity service document, TokenActionResult)
const (
	ActionLogin          = "LOGIN"
	ActionCoupleSession  = "COUPLE_EXTERNAL_IDP_FROM_SESSION"
	ActionCouple         = "COUPLE_EXTERNAL_IDP_FROM_PARAMETERS"
	ActionActivatePerson = "PERSON_ACTIVATION"
)

// The parameters of actions.
const (
	paramIDP      = "idp_id"
	paramExternal = "external_id"
	paramIssuer   = "issuer"
	paramSession  = "session_id"
	paramLevel    = "authentication_level"
)

const (
	maxActions        = 10
	maxActionTTL      = 365 * 24 * 3600 // seconds
	defaultActionTTL  = 3600            // seconds, for actions without a setting
	maxActionValue    = 512             // characters of a parameter
	highestAuthnLevel = 4
)

// Action is one thing that an action token does.
type Action struct {
	Type string `json:"type" rest:"required" cbor:"1,keyasint"`
	// Parameters: idp_id, external_id and optionally issuer of COUPLE_EXTERNAL_IDP_FROM_PARAMETERS, session_id of
	// COUPLE_EXTERNAL_IDP_FROM_SESSION.
	Parameters map[string]string `json:"parameters,omitempty" cbor:"2,keyasint,omitempty"`
}

// NewActionToken describes an action token that is to be made.
type NewActionToken struct {
	Actions []Action `json:"actions" rest:"required"`
	// TTL counts seconds, up to a year. Default: the shortest lifetime that the features unit sets for the actions.
	TTL int `json:"ttl,omitempty"`
	// RedirectURI is the destination of the person afterwards. It must be whitelisted for action tokens. Default: where
	// any sign-in ends.
	RedirectURI string `json:"redirect_uri,omitempty"`
	// Level is the authentication level of a LOGIN. Default: that of the features unit.
	Level int `json:"authentication_level,omitempty"`
	// AppToWeb says that the LOGIN carries a sign-in from an app to the web.
	AppToWeb bool `json:"app_to_web,omitempty"`
	// Ceiling is the highest level that a LOGIN gets, whatever the token or the features unit says. 0: none
	Ceiling int `json:"-"`
	// Roles says that the LOGIN can also sign in a person with a role in the admin console. It is for the command line,
	// never for an API client.
	Roles bool `json:"-"`
}

// ActionToken is a new action token. The token itself is not stored, so it is never shown again.
type ActionToken struct {
	ID        string    `json:"id"`
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// actionParameters are the parameters of each type of action. true: required.
var actionParameters = map[string]map[string]bool{
	ActionLogin:          {},
	ActionCoupleSession:  {paramSession: true},
	ActionCouple:         {paramIDP: true, paramExternal: true, paramIssuer: false},
	ActionActivatePerson: {},
}

var actionParameter = regexp.MustCompile(`^[a-z_]{1,64}$`)

// check returns a *person.ValidationError if the description is invalid.
func (n *NewActionToken) check() error {
	switch {
	case len(n.Actions) == 0 || len(n.Actions) > maxActions:
		return &person.ValidationError{Field: "actions", Problem: fmt.Sprintf("must be 1 to %d", maxActions)}
	case n.TTL < 0 || n.TTL > maxActionTTL:
		return &person.ValidationError{Field: "ttl", Problem: fmt.Sprintf("must be 1 to %d seconds", maxActionTTL)}
	case n.Level < 0 || n.Level > highestAuthnLevel:
		return &person.ValidationError{Field: "authentication_level", Problem: "must be 1 to 4"}
	case n.Ceiling > 0 && n.Level > n.Ceiling:
		return &person.ValidationError{
			Field:   "authentication_level",
			Problem: fmt.Sprintf("is above %d, the max_level of the API client", n.Ceiling),
		}
	case !n.has(ActionLogin) && (n.Level != 0 || n.AppToWeb):
		return &person.ValidationError{Field: "actions", Problem: "have no LOGIN, to which authentication_level and app_to_web belong"}
	}
	seen := map[string]bool{}
	for _, a := range n.Actions {
		if once := a.Type == ActionLogin || a.Type == ActionActivatePerson; once && seen[a.Type] {
			return &person.ValidationError{Field: "actions", Problem: "have " + a.Type + " twice"}
		}
		seen[a.Type] = true
		if err := a.check(); err != nil {
			return err
		}
	}
	return nil
}

// check returns a *person.ValidationError if the type or a parameter is invalid.
func (a *Action) check() error {
	known, ok := actionParameters[a.Type]
	if !ok {
		return &person.ValidationError{Field: "actions", Problem: "have an unknown type"}
	}
	for name, value := range a.Parameters {
		if _, ok := known[name]; !ok || !actionParameter.MatchString(name) {
			return &person.ValidationError{Field: "actions", Problem: a.Type + " has an unknown parameter"}
		}
		if value == "" || !person.IsText(value, maxActionValue) {
			problem := fmt.Sprintf("must have parameters of 1 to %d characters without control characters", maxActionValue)
			return &person.ValidationError{Field: "actions", Problem: problem}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if known[name] && a.Parameters[name] == "" {
			return &person.ValidationError{Field: "actions", Problem: a.Type + " needs the parameter " + name}
		}
	}
	return nil
}

// admit returns a *person.ValidationError if the token is not for a person with a role in the admin console.
func (n *NewActionToken) admit() error {
	for _, a := range n.Actions {
		if !n.Roles || a.Type != ActionActivatePerson && a.Type != ActionLogin {
			return &person.ValidationError{
				Field:   "actions",
				Problem: "have " + a.Type + ", which is not for people with a role in the admin console",
			}
		}
	}
	return nil
}

func (n *NewActionToken) has(kind string) bool {
	return slices.ContainsFunc(n.Actions, func(a Action) bool { return a.Type == kind })
}

// life returns the validity of the token.
func (n *NewActionToken) life(f *settings.ActionToken) time.Duration {
	ttl := n.TTL
	if ttl == 0 {
		ttl = maxActionTTL
		for _, a := range n.Actions {
			switch {
			case a.Type == ActionLogin && n.AppToWeb:
				ttl = min(ttl, f.AppToWeb.TTL)
			case a.Type == ActionLogin:
				ttl = min(ttl, f.Login.TTL)
			case a.Type == ActionActivatePerson:
				ttl = min(ttl, defaultActionTTL)
			default:
				ttl = min(ttl, f.Coupling.TTL)
			}
		}
	}
	return time.Duration(ttl) * time.Second
}

// actionTypes names the types of actions, for events.
func actionTypes(actions []Action) string {
	return strings.Join(typesOf(actions), ", ")
}

func typesOf(actions []Action) (out []string) {
	for _, a := range actions {
		out = append(out, a.Type)
	}
	return out
}
