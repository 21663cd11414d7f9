//! The functions of the server that this module uses, by names of our own.
//!
//! The server fills in their addresses when the module is loaded; one that it has not got stays
//! empty. [`find`] is called before anything else is, so that the fallbacks below never happen on
//! a server that we run on.

use std::ffi::{c_char, c_int, c_long, c_longlong, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use redis_module::raw;

use crate::server::ffi::constants::ERR;

pub use redis_module::raw::{
    RedisModuleBlockedClient as Blocked, RedisModuleCallReply as CallReply,
    RedisModuleCmdFunc as CommandFn, RedisModuleCommand as Command,
    RedisModuleCommandFilter as CommandFilter, RedisModuleCommandFilterCtx as FilterCtx,
    RedisModuleCommandFilterFunc as FilterFn, RedisModuleCommandInfo as CommandInfo,
    RedisModuleConfigApplyFunc as ApplyFn, RedisModuleCtx as RawCtx, RedisModuleEvent as Event,
    RedisModuleEventCallback as EventFn, RedisModuleEventLoopFunc as EventLoopFn,
    RedisModuleEventLoopOneShotFunc as OneShotFn, RedisModuleInfoCtx as InfoCtx,
    RedisModuleKey as RawKey, RedisModuleNotificationFunc as NotificationFn,
    RedisModulePostNotificationJobFunc as JobFn, RedisModuleServerInfoData as ServerInfo,
    RedisModuleString as RawString, RedisModuleUser as User,
};

/// What the server calls at a waiter's end.
pub type FreeFn = Option<unsafe extern "C" fn(*mut RawCtx, *mut c_void)>;

macro_rules! api {
    ($($name:ident = $raw:ident($($arg:ident: $kind:ty),*) $(-> $result:ty)?, or $absent:expr;)*) => {
        $(
            /// # Safety
            /// As the server's function of this name asks.
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "as many as the server's function takes")]
            pub unsafe fn $name($($arg: $kind),*) $(-> $result)? {
                // SAFETY: promised by our caller; the address is written once, before any other of our code runs.
                unsafe { (found::$name)($($arg),*) }
            }
        )*

        /// The addresses of the functions: to call one through the server's own table takes four instructions, and a
        /// command calls some twenty.
        #[allow(non_upper_case_globals, reason = "named as the functions are")]
        mod found {
            use super::*;

            $(
                pub static mut $name: unsafe extern "C" fn($($kind),*) $(-> $result)? = {
                    unsafe extern "C" fn absent($(_: $kind),*) $(-> $result)? {
                        $absent
                    }
                    absent
                };
            )*
        }

        /// Finds the functions, and returns one that this server has not got, if there is one.
        pub fn find() -> Option<&'static str> {
            let mut absent = None;
            $(
                // SAFETY: the server wrote the address once, before any of our code ran.
                match unsafe { raw::$raw } {
                    // SAFETY: nothing else of ours runs yet.
                    Some(function) => unsafe { found::$name = function },
                    None => absent = Some(stringify!($raw)),
                }
            )*
            absent
        }
    };
}

api! {
    avoid_replica_traffic = RedisModule_AvoidReplicaTraffic() -> c_int, or 1;
    block_client_on_keys = RedisModule_BlockClientOnKeys(
        ctx: *mut RawCtx, reply: CommandFn, timeout: CommandFn, free: FreeFn, timeout_ms: c_longlong,
        keys: *mut *mut RawString, count: c_int, data: *mut c_void
    ) -> *mut Blocked, or null_mut();
    blocked_client_disconnected = RedisModule_BlockedClientDisconnected(ctx: *mut RawCtx) -> c_int, or 1;
    call_reply_array_element = RedisModule_CallReplyArrayElement(reply: *mut CallReply, index: usize) -> *mut CallReply, or null_mut();
    call_reply_proto = RedisModule_CallReplyProto(reply: *mut CallReply, len: *mut usize) -> *const c_char, or std::ptr::null();
    call_reply_string_ptr = RedisModule_CallReplyStringPtr(reply: *mut CallReply, len: *mut usize) -> *const c_char, or std::ptr::null();
    call_reply_type = RedisModule_CallReplyType(reply: *mut CallReply) -> c_int, or -1;
    close_key = RedisModule_CloseKey(key: *mut RawKey), or ();
    command_filter_arg_get = RedisModule_CommandFilterArgGet(ctx: *mut FilterCtx, at: c_int) -> *mut RawString, or null_mut();
    command_filter_args_count = RedisModule_CommandFilterArgsCount(ctx: *mut FilterCtx) -> c_int, or 0;
    create_command = RedisModule_CreateCommand(
        ctx: *mut RawCtx, name: *const c_char, function: CommandFn, flags: *const c_char,
        first: c_int, last: c_int, step: c_int
    ) -> c_int, or ERR;
    create_string = RedisModule_CreateString(ctx: *mut RawCtx, bytes: *const c_char, len: usize) -> *mut RawString, or null_mut();
    delete_key = RedisModule_DeleteKey(key: *mut RawKey) -> c_int, or ERR;
    event_loop_add = RedisModule_EventLoopAdd(fd: c_int, mask: c_int, function: EventLoopFn, data: *mut c_void) -> c_int, or ERR;
    event_loop_del = RedisModule_EventLoopDel(fd: c_int, mask: c_int) -> c_int, or ERR;
    event_loop_add_one_shot = RedisModule_EventLoopAddOneShot(function: OneShotFn, data: *mut c_void) -> c_int, or ERR;
    free_call_reply = RedisModule_FreeCallReply(reply: *mut CallReply), or ();
    free_server_info = RedisModule_FreeServerInfo(ctx: *mut RawCtx, info: *mut ServerInfo), or ();
    free_string = RedisModule_FreeString(ctx: *mut RawCtx, string: *mut RawString), or ();
    free_thread_safe_context = RedisModule_FreeThreadSafeContext(ctx: *mut RawCtx), or ();
    get_abs_expire = RedisModule_GetAbsExpire(key: *mut RawKey) -> c_longlong, or -1;
    get_blocked_client_private_data = RedisModule_GetBlockedClientPrivateData(ctx: *mut RawCtx) -> *mut c_void, or null_mut();
    get_client_id = RedisModule_GetClientId(ctx: *mut RawCtx) -> u64, or 0;
    get_client_user_name_by_id = RedisModule_GetClientUserNameById(ctx: *mut RawCtx, id: u64) -> *mut RawString, or null_mut();
    get_client_info_by_id = RedisModule_GetClientInfoById(info: *mut c_void, id: u64) -> c_int, or ERR;
    free = RedisModule_Free(memory: *mut c_void), or ();
    get_command_keys_with_flags = RedisModule_GetCommandKeysWithFlags(
        ctx: *mut RawCtx, argv: *mut *mut RawString, argc: c_int, count: *mut c_int, flags: *mut *mut c_int
    ) -> *mut c_int, or null_mut();
    get_command = RedisModule_GetCommand(ctx: *mut RawCtx, name: *const c_char) -> *mut Command, or null_mut();
    get_context_flags = RedisModule_GetContextFlags(ctx: *mut RawCtx) -> c_int, or 0;
    get_detached_thread_safe_context = RedisModule_GetDetachedThreadSafeContext(ctx: *mut RawCtx) -> *mut RawCtx, or null_mut();
    get_notify_keyspace_events = RedisModule_GetNotifyKeyspaceEvents() -> c_int, or -1;
    get_selected_db = RedisModule_GetSelectedDb(ctx: *mut RawCtx) -> c_int, or 0;
    get_server_info = RedisModule_GetServerInfo(ctx: *mut RawCtx, section: *const c_char) -> *mut ServerInfo, or null_mut();
    info_add_field_c_string = RedisModule_InfoAddFieldCString(info: *mut InfoCtx, name: *const c_char, text: *const c_char) -> c_int, or ERR;
    info_add_field_u_long_long = RedisModule_InfoAddFieldULongLong(info: *mut InfoCtx, name: *const c_char, number: u64) -> c_int, or ERR;
    info_add_section = RedisModule_InfoAddSection(info: *mut InfoCtx, name: *const c_char) -> c_int, or ERR;
    info_begin_dict_field = RedisModule_InfoBeginDictField(info: *mut InfoCtx, name: *const c_char) -> c_int, or ERR;
    info_end_dict_field = RedisModule_InfoEndDictField(info: *mut InfoCtx) -> c_int, or ERR;
    key_exists = RedisModule_KeyExists(ctx: *mut RawCtx, name: *mut RawString) -> c_int, or 0;
    key_type = RedisModule_KeyType(key: *mut RawKey) -> c_int, or -1;
    load_configs = RedisModule_LoadConfigs(ctx: *mut RawCtx) -> c_int, or ERR;
    notify_keyspace_event = RedisModule_NotifyKeyspaceEvent(ctx: *mut RawCtx, class: c_int, event: *const c_char, key: *mut RawString) -> c_int, or ERR;
    open_key = RedisModule_OpenKey(ctx: *mut RawCtx, name: *mut RawString, mode: c_int) -> *mut RawKey, or null_mut();
    publish_message = RedisModule_PublishMessage(ctx: *mut RawCtx, channel: *mut RawString, message: *mut RawString) -> c_int, or 0;
    publish_message_shard = RedisModule_PublishMessageShard(ctx: *mut RawCtx, channel: *mut RawString, message: *mut RawString) -> c_int, or 0;
    register_bool_config = RedisModule_RegisterBoolConfig(
        ctx: *mut RawCtx, name: *const c_char, default: c_int, flags: c_uint,
        get: raw::RedisModuleConfigGetBoolFunc, set: raw::RedisModuleConfigSetBoolFunc, apply: ApplyFn, data: *mut c_void
    ) -> c_int, or ERR;
    register_command_filter = RedisModule_RegisterCommandFilter(ctx: *mut RawCtx, function: FilterFn, flags: c_int) -> *mut CommandFilter, or null_mut();
    register_info_func = RedisModule_RegisterInfoFunc(ctx: *mut RawCtx, function: raw::RedisModuleInfoFunc) -> c_int, or ERR;
    register_numeric_config = RedisModule_RegisterNumericConfig(
        ctx: *mut RawCtx, name: *const c_char, default: c_longlong, flags: c_uint, least: c_longlong, most: c_longlong,
        get: raw::RedisModuleConfigGetNumericFunc, set: raw::RedisModuleConfigSetNumericFunc, apply: ApplyFn, data: *mut c_void
    ) -> c_int, or ERR;
    register_string_config = RedisModule_RegisterStringConfig(
        ctx: *mut RawCtx, name: *const c_char, default: *const c_char, flags: c_uint,
        get: raw::RedisModuleConfigGetStringFunc, set: raw::RedisModuleConfigSetStringFunc, apply: ApplyFn, data: *mut c_void
    ) -> c_int, or ERR;
    reply_with_array = RedisModule_ReplyWithArray(ctx: *mut RawCtx, len: c_long) -> c_int, or ERR;
    reply_with_call_reply = RedisModule_ReplyWithCallReply(ctx: *mut RawCtx, reply: *mut CallReply) -> c_int, or ERR;
    reply_with_error = RedisModule_ReplyWithError(ctx: *mut RawCtx, text: *const c_char) -> c_int, or ERR;
    reply_with_long_long = RedisModule_ReplyWithLongLong(ctx: *mut RawCtx, number: c_longlong) -> c_int, or ERR;
    reply_with_map = RedisModule_ReplyWithMap(ctx: *mut RawCtx, len: c_long) -> c_int, or ERR;
    reply_with_null = RedisModule_ReplyWithNull(ctx: *mut RawCtx) -> c_int, or ERR;
    reply_with_null_array = RedisModule_ReplyWithNullArray(ctx: *mut RawCtx) -> c_int, or ERR;
    reply_with_simple_string = RedisModule_ReplyWithSimpleString(ctx: *mut RawCtx, text: *const c_char) -> c_int, or ERR;
    reply_with_string_buffer = RedisModule_ReplyWithStringBuffer(ctx: *mut RawCtx, bytes: *const c_char, len: usize) -> c_int, or ERR;
    retain_string = RedisModule_RetainString(ctx: *mut RawCtx, string: *mut RawString), or ();
    select_db = RedisModule_SelectDb(ctx: *mut RawCtx, db: c_int) -> c_int, or ERR;
    server_info_get_field = RedisModule_ServerInfoGetFieldC(info: *mut ServerInfo, field: *const c_char) -> *const c_char, or std::ptr::null();
    set_abs_expire = RedisModule_SetAbsExpire(key: *mut RawKey, at: c_longlong) -> c_int, or ERR;
    set_command_info = RedisModule_SetCommandInfo(command: *mut Command, info: *const CommandInfo) -> c_int, or ERR;
    set_module_options = RedisModule_SetModuleOptions(ctx: *mut RawCtx, options: c_int), or ();
    signal_modified_key = RedisModule_SignalModifiedKey(ctx: *mut RawCtx, key: *mut RawString) -> c_int, or ERR;
    string_dma = RedisModule_StringDMA(key: *mut RawKey, len: *mut usize, mode: c_int) -> *mut c_char, or null_mut();
    string_ptr_len = RedisModule_StringPtrLen(string: *const RawString, len: *mut usize) -> *const c_char, or std::ptr::null();
    string_truncate = RedisModule_StringTruncate(key: *mut RawKey, len: usize) -> c_int, or ERR;
    subscribe_to_keyspace_events = RedisModule_SubscribeToKeyspaceEvents(ctx: *mut RawCtx, classes: c_int, function: NotificationFn) -> c_int, or ERR;
    subscribe_to_server_event = RedisModule_SubscribeToServerEvent(ctx: *mut RawCtx, event: Event, function: EventFn) -> c_int, or ERR;
    unregister_command_filter = RedisModule_UnregisterCommandFilter(ctx: *mut RawCtx, filter: *mut CommandFilter) -> c_int, or ERR;
    unlink_key = RedisModule_UnlinkKey(key: *mut RawKey) -> c_int, or ERR;
    unblock_client = RedisModule_UnblockClient(client: *mut Blocked, data: *mut c_void) -> c_int, or ERR;
    value_length = RedisModule_ValueLength(key: *mut RawKey) -> usize, or 0;
    acl_check_channel_permissions = RedisModule_ACLCheckChannelPermissions(user: *mut User, channel: *mut RawString, flags: c_int) -> c_int, or ERR;
    acl_check_command_permissions = RedisModule_ACLCheckCommandPermissions(user: *mut User, argv: *mut *mut RawString, argc: c_int) -> c_int, or ERR;
    acl_check_key_permissions = RedisModule_ACLCheckKeyPermissions(user: *mut User, key: *mut RawString, flags: c_int) -> c_int, or ERR;
    free_module_user = RedisModule_FreeModuleUser(user: *mut User), or ();
    get_current_user_name = RedisModule_GetCurrentUserName(ctx: *mut RawCtx) -> *mut RawString, or null_mut();
    get_module_user_from_user_name = RedisModule_GetModuleUserFromUserName(name: *mut RawString) -> *mut User, or null_mut();
    zset_add = RedisModule_ZsetAdd(key: *mut RawKey, score: f64, member: *mut RawString, flags: *mut c_int) -> c_int, or ERR;
    zset_first_in_score_range = RedisModule_ZsetFirstInScoreRange(
        key: *mut RawKey, least: f64, most: f64, without_least: c_int, without_most: c_int
    ) -> c_int, or ERR;
    zset_last_in_score_range = RedisModule_ZsetLastInScoreRange(
        key: *mut RawKey, least: f64, most: f64, without_least: c_int, without_most: c_int
    ) -> c_int, or ERR;
    zset_range_current_element = RedisModule_ZsetRangeCurrentElement(key: *mut RawKey, score: *mut f64) -> *mut RawString, or null_mut();
    zset_range_end_reached = RedisModule_ZsetRangeEndReached(key: *mut RawKey) -> c_int, or 1;
    zset_range_next = RedisModule_ZsetRangeNext(key: *mut RawKey) -> c_int, or 0;
    zset_range_prev = RedisModule_ZsetRangePrev(key: *mut RawKey) -> c_int, or 0;
    zset_range_stop = RedisModule_ZsetRangeStop(key: *mut RawKey), or ();
    zset_rem = RedisModule_ZsetRem(key: *mut RawKey, member: *mut RawString, deleted: *mut c_int) -> c_int, or ERR;
    zset_score = RedisModule_ZsetScore(key: *mut RawKey, member: *mut RawString, score: *mut f64) -> c_int, or ERR;
}

/// How a Valkey that knows rights to databases (9.1) is asked for all of a user's rights to a command.
/// The last argument says which of them is missing.
pub type CheckPermissions =
    unsafe extern "C" fn(*mut User, *mut *mut RawString, c_int, c_int, *mut c_int) -> c_int;

/// The function that checks permissions, where the server has it. It is looked for once.
pub fn check_permissions() -> Option<CheckPermissions> {
    static FOUND: OnceLock<Option<CheckPermissions>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let name = c"RedisModule_ACLCheckPermissions";
        let mut function: Option<CheckPermissions> = None;
        // SAFETY: the server wrote the address once. It leaves the function's own where we say, which
        // is good for one, or leaves that as it is.
        unsafe {
            raw::RedisModule_GetApi?(name.as_ptr(), (&raw mut function).cast());
        }
        function
    })
}
