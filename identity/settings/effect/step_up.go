package effect

var stepUp = []Effect{
	does("step_up.actions.allow_set_initial_step_up_method_enabled", "A person without a method sets up the first one with a sign-in of any level, and is sent there when a level is demanded.", "InitialStepUp"),
	does("step_up.actions.default_step_up_authentication_level", "The level that /step-up leads to if none was demanded.", "DefaultStepUpLevel"),
	does("step_up.actions.dashboard_step_up_authentication_level", "The level that the account page demands.", "DashboardLevel"),
	does("step_up.actions.setup_step_up_methods_authentication_level", "The level that setting up or removing a method demands; never less than the strongest method that the person has.", "SetUpLevel"),
	does("step_up.actions.change_email_authentication_level", "The level that adding, confirming or removing an e-mail address or telephone number demands. Where step-up codes are sent there it is never less than what setting up a method demands.", "ChangeLevels"),
	does("step_up.actions.change_password_authentication_level", "The level that changing the own password demands. The first one demands what setting up a method does.", "ChangeLevels"),
	does("step_up.authentication_methods.pin_authentication_level", "The level that a PIN gives.", "PIN"),
	does("step_up.authentication_methods.sms_authentication_level", "The level that a code by text message gives.", "SMSCode"),
	does("step_up.authentication_methods.email_authentication_level", "The level that a code by e-mail gives.", "EmailCode"),
	does("step_up.authentication_methods.google_authenticator_authentication_level", "The level that a code of the authenticator app gives, and a recovery code.", "AuthenticatorLevel"),
	does("step_up.authentication_methods.push_authentication_level", "The level that a prompt on a phone gives. Needs `push` in the Caddyfile.", "PushStepUp"),
	does("step_up.authentication_methods.externally_delivered_code_authentication_level", "The level of a code that is delivered outside Gatehouse.", "DeliveredCode"),
	does("step_up.second_factor", "When a sign-in needs a second step, unless the application says otherwise. WHEN_SET_UP: where the person has set up a method that gives level 2 or more. ALWAYS: for everyone; who has no method sets one up on the way, if allow_set_initial_step_up_method_enabled is on. ON_DEMAND: where a level is asked for, and otherwise a password is enough whatever the person has set up. Empty: as `second_factor` in the Caddyfile says, by default WHEN_SET_UP. A sign-in that a proxy vouches for is not concerned.", "SecondFactor"),
	does("step_up.stategy", "USER_PREFERENCE: the person chooses among the methods that reach the level; the one that they have put first comes first, else the one used last. STRONGEST_AVAILABLE: only the strongest that they have are offered.", "StepUpStrategy"),
}
