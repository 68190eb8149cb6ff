package ldap

import (
	"errors"
	"fmt"
	"regexp"

	ldapv3 "github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-id/gatehouse/idp"
)

// rejections are accounts whose password is right and that must not be used, by the code that Active Directory writes
// into its answer. It says so only to who knows the password. (MS-ADTS, Win32 errors in hexadecimal digits)
var rejections = map[string]*idp.Rejection{
	"530": {Reason: "the directory does not let the account sign in at this time"},
	"531": {Reason: "the directory does not let the account sign in from this computer"},
	"532": {Reason: "the password has expired in the directory", Password: true},
	"533": {Reason: "the account is disabled in the directory"},
	"701": {Reason: "the account has expired in the directory"},
	"773": {Reason: "the directory wants the password to be changed first", Password: true},
}

// lockedCode says that too many wrong passwords were tried, whether this one is right or not.
const lockedCode = "775"

var dataCode = regexp.MustCompile(`AcceptSecurityContext error, data ([0-9a-f]{2,8}),`)

// refused judges the answer to the bind of a person. nil: the person has authenticated.
func refused(res *ldapv3.SimpleBindResult, err error) error {
	policy := int8(-1)
	if res != nil {
		if c, ok := ldapv3.FindControl(res.Controls, ldapv3.ControlTypeBeheraPasswordPolicy).(*ldapv3.ControlBeheraPasswordPolicy); ok {
			policy = c.Error
		}
	}
	var answer *ldapv3.Error
	switch {
	case err == nil && (policy == ldapv3.BeheraChangeAfterReset || policy == ldapv3.BeheraPasswordExpired):
		return rejections["773"]
	case err == nil, errors.As(err, new(*failure)), !errors.As(err, &answer):
		return err
	case answer.ResultCode == ldapv3.LDAPResultInvalidCredentials:
	case answer.ResultCode == ldapv3.LDAPResultNoSuchObject, answer.ResultCode == ldapv3.LDAPResultInvalidDNSyntax,
		answer.ResultCode == ldapv3.LDAPResultInappropriateAuthentication: // an entry without a password
		return fmt.Errorf("%w: %w", idp.ErrCredentials, words(err))
	default:
		return words(err)
	}
	if policy == ldapv3.BeheraPasswordExpired {
		return rejections["532"]
	}
	code := dataCode.FindStringSubmatch(answer.Err.Error())
	if policy == ldapv3.BeheraAccountLocked || code != nil && code[1] == lockedCode {
		return fmt.Errorf("%w: the directory has locked the account", idp.ErrCredentials)
	}
	if code != nil && rejections[code[1]] != nil {
		return rejections[code[1]]
	}
	return idp.ErrCredentials
}
