package federation

import (
	"net/url"
)

// Done is where the answer signs in who is known.
func (a *Answer) Done() string {
	return "/sign-in/provider/done?" + url.Values{"flow": {a.Name}}.Encode()
}
