package cloud

import (
	"time"

	"github.com/musterhq/muster/domain"
)

// fields are the fields of changes that are read.
var fields = map[string]func(*reader, *change) error{
	"messages":                    (*reader).messages,
	"smb_message_echoes":          (*reader).echoes,
	"account_update":              (*reader).account,
	"phone_number_quality_update": (*reader).quality,
}

// otherFields are the fields that are known and of no interest.
var otherFields = map[string]bool{
	"account_alerts": true, "account_review_update": true, "account_settings_update": true, "automatic_events": true,
	"business_capability_update": true, "business_status_update": true, "calls": true, "flows": true, "group_lifecycle_update": true,
	"group_participants_update": true, "group_settings_update": true, "group_status_update": true, "history": true, "message_echoes": true,
	"message_template_components_update": true, "message_template_quality_update": true, "message_template_status_update": true,
	"messaging_handovers": true, "partner_solutions": true, "payment_configuration_update": true, "phone_number_name_update": true,
	"security": true, "smb_app_state_sync": true, "standby": true, "template_category_update": true,
	"template_correct_category_detection": true, "tracking_events": true, "user_preferences": true,
}

// statuses are the values of a message's status.
var statuses = map[string]string{
	"sent":      "message_sent",
	"delivered": "message_delivered",
	"read":      "message_read",
	"played":    "message_read",
	"failed":    "message_failed",
}

// effect is what the failure of one message says of its number.
type effect struct {
	trigger string
	scope   string        // in front of the recipient, when it concerns only that one
	lasts   time.Duration // 0: no end is known
}

const (
	moment = time.Minute
	day    = 24 * time.Hour
)

// effects are the error codes of failed messages that say more than that.
var effects = map[int64]effect{
	4:      {trigger: "rate_limited", lasts: moment}, // calls of the app
	80007:  {trigger: "rate_limited", lasts: moment}, // calls of the business account
	130429: {trigger: "rate_limited", lasts: moment}, // throughput of the number
	131048: {trigger: "rate_limited", lasts: day},    // taken for spam; no reconnect ends it, so it must have an end
	131056: {trigger: "restricted", scope: "chat:", lasts: moment},
	131049: {trigger: "restricted", scope: "marketing:", lasts: day},
	368:    {trigger: "banned"},
	131031: {trigger: "banned"},
}

// notWritten are the types of incoming messages that ask for no answer.
var notWritten = map[string]bool{"reaction": true, "system": true}

// accountEvents are the events of account_update that say something of an account:
// the triggers for each, none when the event cannot be understood. All other events
// are of no interest.
var accountEvents = map[string]func(*change) []domain.Trigger{
	"ACCOUNT_RESTRICTION":     restrictions,
	"DISABLED_UPDATE":         ban,
	"ACCOUNT_VIOLATION":       violation,
	"ACCOUNT_DELETED":         gone,
	"ACCOUNT_OFFBOARDED":      gone,
	"PARTNER_REMOVED":         gone,
	"PARTNER_APP_UNINSTALLED": gone,
	"ACCOUNT_RECONNECTED":     back,
}

// scopes are the types of restrictions.
var scopes = map[string]string{
	"RESTRICTED_BIZ_INITIATED_MESSAGING":      "new_chats",
	"RESTRICTED_CUSTOMER_INITIATED_MESSAGING": "replies",
	"RESTRICTED_ADD_PHONE_NUMBER_ACTION":      "add_number",
}

// bans are the states of a ban.
var bans = map[string]func(*change) []domain.Trigger{
	"SCHEDULE_FOR_DISABLE": func(c *change) []domain.Trigger { return c.human("appeal_ban", "SCHEDULE_FOR_DISABLE") },
	"DISABLE":              func(c *change) []domain.Trigger { return c.one("banned", "DISABLE") },
	"REINSTATE":            back,
}

// qualities are the events of phone_number_quality_update that say something, and
// the action that they ask for; an empty one takes it back.
var qualities = map[string]string{
	"FLAGGED":   "check_quality",
	"UNFLAGGED": "",
}
