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
// its ACLs.
func ensureUsers(ctx context.Context, client *kgo.Client, config *Config, folder string, accesses []stream.Access) error {
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
		users = append(users, kadm.UpsertSCRAM{User: access.User, Mechanism: kadm.ScramSha512, Iterations: iterations, Password: password})
	}
	altered, err := kadm.NewClient(client).AlterUserSCRAMs(ctx, nil, users)
	if err != nil {
		return &awayError{fmt.Errorf("creating the users of Kafka: %w", err)}
	}
	for _, user := range altered.Sorted() {
		if err := refusal(config, "creating the user "+user.User, user.Err, user.ErrMessage); err != nil {
			return err
		}
	}
	for _, access := range accesses {
		if err := ensureRights(ctx, client, config, access); err != nil {
			return err
		}
	}
	return nil
}

// right is one operation that a user may do, from any host.
type right struct {
	resource  kmsg.ACLResourceType
	name      string
	operation kmsg.ACLOperation
}

// rights returns what a user may do. Reading or writing a topic, or joining a group, includes
// seeing it.
func rights(access stream.Access) map[right]bool {
	all := map[right]bool{}
	for _, some := range []struct {
		resource  kmsg.ACLResourceType
		names     []string
		operation kmsg.ACLOperation
	}{
		{kmsg.ACLResourceTypeTopic, access.Reads, kmsg.ACLOperationRead},
		{kmsg.ACLResourceTypeTopic, access.Writes, kmsg.ACLOperationWrite},
		{kmsg.ACLResourceTypeGroup, access.Joins, kmsg.ACLOperationRead},
		{kmsg.ACLResourceTypeGroup, access.Sees, kmsg.ACLOperationDescribe},
	} {
		for _, name := range some.names {
			all[right{some.resource, name, some.operation}] = true
		}
	}
	return all
}

// ensureRights grants what is missing and revokes what is not in the table: a right that a later
// version no longer gives must not outlive it. What an operator denies stays denied.
func ensureRights(ctx context.Context, client *kgo.Client, config *Config, access stream.Access) error {
	principal, wanted, missing := "User:"+access.User, rights(access), rights(access)
	ask := kmsg.NewPtrDescribeACLsRequest()
	ask.ResourceType, ask.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	ask.Operation, ask.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAllow
	ask.Principal = &principal
	granted, err := ask.RequestWith(ctx, client)
	if err != nil {
		return &awayError{fmt.Errorf("reading the ACLs of %s: %w", access.User, err)}
	}
	if err := refusal(config, "reading the ACLs of "+access.User, kerr.ErrorForCode(granted.ErrorCode), text(granted.ErrorMessage)); err != nil {
		return err
	}
	take := kmsg.NewPtrDeleteACLsRequest()
	for _, resource := range granted.Resources {
		for _, acl := range resource.ACLs {
			have := right{resource.ResourceType, resource.ResourceName, acl.Operation}
			if resource.ResourcePatternType == kmsg.ACLResourcePatternTypeLiteral && acl.Host == "*" && wanted[have] {
				delete(missing, have)
				continue
			}
			surplus := kmsg.NewDeleteACLsRequestFilter()
			surplus.ResourceType, surplus.ResourcePatternType = resource.ResourceType, resource.ResourcePatternType
			surplus.ResourceName, surplus.Principal, surplus.Host = &resource.ResourceName, &acl.Principal, &acl.Host
			surplus.Operation, surplus.PermissionType = acl.Operation, acl.PermissionType
			take.Filters = append(take.Filters, surplus)
		}
	}
	give := kmsg.NewPtrCreateACLsRequest()
	for one := range missing {
		creation := kmsg.NewCreateACLsRequestCreation()
		creation.ResourceType, creation.ResourceName, creation.ResourcePatternType = one.resource, one.name, kmsg.ACLResourcePatternTypeLiteral
		creation.Operation, creation.PermissionType = one.operation, kmsg.ACLPermissionTypeAllow
		creation.Principal, creation.Host = principal, "*"
		give.Creations = append(give.Creations, creation)
	}
	if len(give.Creations) > 0 {
		given, err := give.RequestWith(ctx, client)
		if err != nil {
			return &awayError{fmt.Errorf("granting ACLs to %s: %w", access.User, err)}
		}
		for _, result := range given.Results {
			if err := refusal(config, "granting ACLs to "+access.User, kerr.ErrorForCode(result.ErrorCode), text(result.ErrorMessage)); err != nil {
				return err
			}
		}
	}
	if len(take.Filters) > 0 {
		taken, err := take.RequestWith(ctx, client)
		if err != nil {
			return &awayError{fmt.Errorf("revoking ACLs of %s: %w", access.User, err)}
		}
		for _, result := range taken.Results {
			if err := refusal(config, "revoking ACLs of "+access.User, kerr.ErrorForCode(result.ErrorCode), text(result.ErrorMessage)); err != nil {
				return err
			}
		}
	}
	return nil
}

func text(message *string) string {
	if message == nil {
		return ""
	}
	return *message
}

// refusal returns nil if the broker did what was asked. An error that may pass is an awayError.
func refusal(config *Config, what string, err error, message string) error {
	switch {
	case err == nil:
		return nil
	case kerr.IsRetriable(err):
		return &awayError{fmt.Errorf("%s: %w %s", what, err, message)}
	case errors.Is(err, kerr.SecurityDisabled):
		return fmt.Errorf("%s: %w %s: this Kafka is not secured; configure its authorizer, or leave KAFKA_PASSWORDS_DIR empty", what, err, message)
	case errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("%s: %w %s: KAFKA_SASL_USER is %q, and it must be a superuser of the broker", what, err, message, config.Stream.SASLUser)
	}
	return fmt.Errorf("%s: %w %s", what, err, message)
}
