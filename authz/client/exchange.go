package client

import "slices"

// Exchange says what a client can make of the tokens that others send to it. (RFC 8693)
type Exchange struct {
	// From are the ids of the clients whose tokens it can exchange, besides its own.
	From []string `json:"from,omitempty"`
	// To are the audiences of the tokens that it gets for them.
	To []string `json:"to"`
}

// MayExchange tells whether the client can exchange a token of a client for one with these audiences.
func (c *Client) MayExchange(from string, to []string) bool {
	return c.Exchange != nil && (from == c.ID || slices.Contains(c.Exchange.From, from)) && len(to) > 0 && HasResources(c.Exchange.To, to)
}

// ExchangeTargets writes audiences as the client's own list does, once each. None: the only one of the list.
func (c *Client) ExchangeTargets(asked []string) []string {
	if c.Exchange == nil {
		return asked
	}
	if len(asked) == 0 && len(c.Exchange.To) == 1 {
		return c.Exchange.To
	}
	own, out := c.Exchange.To, make([]string, 0, len(asked))
	for _, target := range asked {
		plain := plainResource(target)
		if i := slices.IndexFunc(own, func(a string) bool { return plainResource(a) == plain }); i >= 0 && !slices.Contains(own, target) {
			target = own[i]
		}
		out = append(out, target)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (c *Client) checkExchange(p *Problems) {
	switch has := c.HasGrant(GrantTokenExchange); {
	case has && c.Public:
		p.Addf("grants: a public client cannot use token_exchange: anyone who knows its name could exchange tokens")
	case has && (c.Exchange == nil || len(c.Exchange.To) == 0):
		p.Addf("exchange is missing: token_exchange needs the audiences that tokens are exchanged for: add `exchange { to https://api.example.com }`")
	case !has && c.Exchange != nil:
		p.Addf("exchange: the client does not have the grant token_exchange")
	case c.Exchange != nil && (slices.Contains(c.Exchange.From, "") || slices.ContainsFunc(c.Exchange.To, func(to string) bool { return to == "" || len(to) > maxTarget || !IsText(to) })):
		p.Addf("exchange: a client or audience is empty, too long or has control characters")
	}
}

// maxTarget is the longest audience in bytes.
const maxTarget = 512
