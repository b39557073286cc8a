package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/liquida/liquida/platform/keys"
	"github.com/liquida/liquida/platform/stream"
)

// iterations is the least that brokers accept. More would only protect a guessable password, and
// ours are random.
const iterations = 4096

// participantsFolder holds, in the folder of passwords, those of the banks' own users.
const participantsFolder = "participants"

// ensureUsers creates users with the passwords in their files in a folder, and gives each exactly
// its ACLs and its quota.
func ensureUsers(ctx context.Context, client *kgo.Client, config *Config, folder string, accesses []stream.Access,
	say func(string, ...any)) error {
	var users []kadm.UpsertSCRAM

	for _, access := range accesses {
		file := keys.PasswordFile(folder, access.User)
		err := keys.MakePassword(file)

		password := ""
		if err == nil {
			password, err = keys.ReadPassword(file)
		}

		if err != nil {
			return fmt.Errorf("KAFKA_PASSWORDS_DIR: %w", err)
		}
		users = append(users, kadm.UpsertSCRAM{User: access.User, Mechanism: kadm.ScramSha512, Iterations: iterations,
			Password: password})
	}

	altered, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil, users)
	for _, user := range altered {
		err = errors.Join(err, answer(user.Err, user.ErrMessage))
	}

	if err := refusal(config, "creating the users of Kafka", err); err != nil {
		return err
	}

	for _, access := range accesses {
		if err := ensureRights(ctx, client, config, access); err != nil {
			return err
		}
	}

	return ensureQuotas(ctx, client, config, accesses, say)
}

// ensureRights grants what the table gives, from any host, and revokes all else: a right that a later version
// no longer gives must not outlive it. Reading or writing a topic, or joining a group, includes seeing it. What
// an operator denies stays denied.
func ensureRights(ctx context.Context, client *kgo.Client, config *Config, access stream.Access) error {
	admin, user, wanted := kadm.NewClient(client), "User:"+access.User, map[kadm.DescribedACL]bool{}

	for _, give := range []*kadm.ACLBuilder{
		kadm.NewACLs().MaybeTopics(access.Reads...).Operations(kadm.OpRead),
		kadm.NewACLs().MaybeTopics(access.Writes...).Operations(kadm.OpWrite),
		kadm.NewACLs().MaybeGroups(access.Joins...).Operations(kadm.OpRead),
		kadm.NewACLs().MaybeGroups(access.Sees...).Operations(kadm.OpDescribe),
	} {
		granted, err := admin.CreateACLs(ctx, give.Allow(user))
		for _, one := range granted {
			err = errors.Join(err, answer(one.Err, one.ErrMessage))
			wanted[kadm.DescribedACL{Principal: one.Principal, Host: one.Host, Type: one.Type, Name: one.Name,
				Pattern: one.Pattern, Operation: one.Operation, Permission: one.Permission}] = true
		}

		if err := refusal(config, "granting ACLs to "+access.User, err); err != nil {
			return err
		}
	}

	all, err := admin.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow(user).AllowHosts().Operations(
		kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny))
	for _, found := range all {
		err = errors.Join(err, answer(found.Err, found.ErrMessage))

		for _, acl := range found.Described {
			if wanted[acl] {
				continue
			}

			taken, wrong := admin.DeleteACLs(ctx, resource(acl).Allow(user).AllowHosts(acl.Host).Operations(
				acl.Operation).ResourcePatternType(acl.Pattern))
			err = errors.Join(err, wrong)

			for _, one := range taken {
				err = errors.Join(err, answer(one.Err, one.ErrMessage))
			}
		}
	}

	return refusal(config, "revoking ACLs of "+access.User, err)
}

// resource names what an ACL is about, and nothing else of the same name: a topic may be called like a group.
func resource(acl kadm.DescribedACL) *kadm.ACLBuilder {
	switch acl.Type {
	case kmsg.ACLResourceTypeTopic:
		return kadm.NewACLs().Topics(acl.Name)
	case kmsg.ACLResourceTypeGroup:
		return kadm.NewACLs().Groups(acl.Name)
	}

	return kadm.NewACLs().AnyResource(acl.Name)
}

// answer returns what a broker says about one thing that it was asked to do, or nil if it has done it.
func answer(err error, message string) error {
	if err == nil {
		return nil
	}

	return fmt.Errorf("%w %s", err, message)
}

// refusal returns nil if the broker did what was asked. An error that may pass is an awayError.
func refusal(config *Config, what string, err error) error {
	refused, told := errors.AsType[*kerr.Error](err)
	switch {
	case err == nil:
		return nil
	case !told || refused.Retriable:
		return away("%s: %w", what, err)
	case refused == kerr.SecurityDisabled:
		return fmt.Errorf("%s: %w: this Kafka is not secured; configure its authorizer, or leave KAFKA_PASSWORDS_DIR empty",
			what, err)
	case refused == kerr.ClusterAuthorizationFailed:
		return fmt.Errorf("%s: %w: KAFKA_SASL_USER is %q, and it must be a superuser of the broker", what, err,
			config.Stream.SASLUser)
	}

	return fmt.Errorf("%s: %w", what, err)
}

// ensureQuotas gives each foreign user its quota, or takes it away, and says what it did. A
// broker without quotas of users is no failure: the clearing house works, and the engine has
// limits of its own.
func ensureQuotas(ctx context.Context, client *kgo.Client, config *Config, accesses []stream.Access,
	say func(string, ...any)) error {
	admin := kadm.NewClient(client)

	brokers, err := admin.ApiVersions(ctx)
	if err != nil {
		return away("asking for the requests that Kafka knows: %w", err)
	}

	for _, broker := range brokers {
		if broker.Err != nil {
			return away("asking broker %d for the requests that it knows: %w", broker.NodeID, broker.Err)
		}

		if _, known := broker.KeyMaxVersion(kmsg.AlterClientQuotas.Int16()); !known {
			say("NO QUOTAS: broker %d does not know client quotas; KAFKA_WRITER_BYTES_PER_SECOND_MAX has no effect",
				broker.NodeID)
			return nil
		}
	}
	most := config.WriterBytesMax
	op := kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: float64(most), Remove: most == 0}
	var entries []kadm.AlterClientQuotaEntry

	for _, access := range accesses {
		if access.Foreign {
			entries = append(entries, kadm.AlterClientQuotaEntry{
				Entity: kadm.ClientQuotaEntity{{Type: "user", Name: &access.User}}, Ops: []kadm.AlterClientQuotaOp{op},
			})
		}
	}

	altered, err := admin.AlterClientQuotas(ctx, entries)
	for _, one := range altered {
		err = errors.Join(err, answer(one.Err, one.ErrMessage))
	}

	switch {
	case errors.Is(err, kerr.UnsupportedVersion), errors.Is(err, kerr.InvalidRequest):
		// quotas of clients only, as in earlier versions of Redpanda
		say("NO QUOTAS: this Kafka has none for users (%v); KAFKA_WRITER_BYTES_PER_SECOND_MAX has no effect", err)
		return nil
	case err == nil && most == 0:
		say("%d users of Kafka that are programs of banks have no quota", len(entries))
	case err == nil:
		say("%d users of Kafka that are programs of banks may each write %d bytes a second to each broker",
			len(entries), most)
	}

	return refusal(config, "setting the quotas of Kafka's users", err)
}
