"""Django's settings. Operators configure through the environment (`env.py`), not by editing this file.

`CONTEXT_LAYERS` and `POLICIES` are tables of dotted paths, which `memoryhub.tenancy.policies` imports at start-up;
all else that apps contribute is registered in their `AppConfig.ready`.
"""

import os
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

from csp.constants import NONCE, NONE, SELF, UNSAFE_EVAL
from pythonjsonlogger.core import RESERVED_ATTRS

from memoryhub.auth.config import SignInConfig
from memoryhub.embeddings.config import EmbeddingConfig, ineffective_embedding_settings
from memoryhub.env import (
    CHECKOUT,
    ineffective_trace_settings,
    read_environment,
    read_secret_files,
    secret_key,
    unknown_settings,
)
from memoryhub.llm.config import LLMConfig, ineffective_llm_settings
from memoryhub.logs import LINE, has_traceback, with_request_id, without_traceback
from memoryhub.mail import TIMEOUT_SECONDS, MailConfig
from memoryhub.runtime.database import databases
from memoryhub.unfold import UNFOLD as UNFOLD

read_secret_files(os.environ)
ENVIRONMENT = read_environment()
BASE_DIR = CHECKOUT
DEBUG = ENVIRONMENT.debug
SECRET_KEY = secret_key(os.environ, ENVIRONMENT.data_dir)
ALLOWED_HOSTS = list(ENVIRONMENT.allowed_hosts)
CSRF_TRUSTED_ORIGINS = list(ENVIRONMENT.trusted_origins)
CSRF_FAILURE_VIEW = "memoryhub.urls.csrf_failure"

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "drf_standardized_errors",
    "django_q",
    "axes",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.mfa",
    "memoryhub",
    "conversations",
    "summaries",
    "strength",
    "memoryhub.webhooks",
]

MIDDLEWARE = [
    "memoryhub.api.middleware.RequestLimits",
    "memoryhub.api.middleware.CompressPages",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "memoryhub.api.middleware.LocaleAndZoneMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "memoryhub.auth.login.serialize_logins",
    "axes.middleware.AxesMiddleware",
    "memoryhub.auth.agent_limits.LimitToAgents",
]

if ENVIRONMENT.replica_urls:
    MIDDLEWARE.insert(1, "memoryhub.api.reading.ReadFromReplicas")

ROOT_URLCONF = "memoryhub.urls"
ASGI_APPLICATION = "memoryhub.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [CHECKOUT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = databases(ENVIRONMENT)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOCAL_MEMORY = "django.core.cache.backends.locmem.LocMemCache"


SHARED_CACHE = "memoryhub.db.shared_cache.SharedCache"

CACHES: dict[str, dict[str, Any]] = {
    # Used one-time codes, documents of sign-in providers, pauses of a router's model.
    "default": {"BACKEND": SHARED_CACHE, "LOCATION": "default", "OPTIONS": {"MAX_ENTRIES": 10_000}},
    # Runs of the playground (`conversations.admin.playground`), which hold texts.
    "playground": {"BACKEND": SHARED_CACHE, "LOCATION": "playground", "OPTIONS": {"MAX_ENTRIES": 1_000}},
    # Vectors of the latest queries (`memoryhub.embeddings.spaces`); 1,536 numbers take 6 kB.
    "query_vectors": {
        "BACKEND": LOCAL_MEMORY,
        "LOCATION": "query_vectors",
        "TIMEOUT": None,
        "OPTIONS": {"MAX_ENTRIES": 2_000},
    },
    # Ids of the results returned to each MCP session (`memoryhub.mcp.calls`).
    "mcp_sessions": {
        "BACKEND": SHARED_CACHE,
        "LOCATION": "mcp_sessions",
        "TIMEOUT": 12 * 3600,
        "OPTIONS": {"MAX_ENTRIES": 2_000},
    },
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",  # refuses locked accounts before a password is checked
    "django.contrib.auth.backends.ModelBackend",
]
AXES_HANDLER = "memoryhub.auth.login.LoginAttempts"
AXES_LOCKOUT_PARAMETERS = ["username", "ip_address"]
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_RESET_ON_SUCCESS = True
# Otherwise continued guessing would lock the account's owner out permanently.
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_LOCKOUT_CALLABLE = "memoryhub.auth.login.locked_page"
AXES_DISABLE_ACCESS_LOG = True
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

# django-allauth implements login stages, the code flow of OpenID Connect and the second factor. None of its pages is
# routed: ours are in `memoryhub.admin.sign_in`, without registration or look-up by e-mail address.
SIGN_IN = SignInConfig.from_env(os.environ)
ACCOUNT_ADAPTER = "memoryhub.auth.login.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_ADAPTER = "memoryhub.auth.oidc.SocialAccountAdapter"
MFA_ADAPTER = "memoryhub.auth.second_factor.MFAAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_TOLERANCE = 1  # 30 s for a phone's clock and for typing

LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("ja", "日本語")]
LOCALE_PATHS = [CHECKOUT / "memoryhub" / "locale"]
FORMAT_MODULE_PATH = "memoryhub.locale"
TIME_ZONE = ENVIRONMENT.time_zone
# Digit grouping for languages without one in Django, such as Japanese.
NUMBER_GROUPING = 3

STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True

# Behind a proxy that terminates TLS. The web server takes client address and scheme from the proxy's headers, if sent
# from the proxy's address, so Django needs to trust no header (SECURE_PROXY_SSL_HEADER).
SPEAKS_TLS = bool(ENVIRONMENT.tls_proxies)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = LANGUAGE_COOKIE_SECURE = SPEAKS_TLS
SECURE_SSL_REDIRECT = SPEAKS_TLS
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]  # requested locally, without TLS
SECURE_HSTS_SECONDS = 31_536_000 if SPEAKS_TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SPEAKS_TLS
# HSTS preload is the domain owner's decision, as it is hard to revert.
SILENCED_SYSTEM_CHECKS = ["security.W021"]

# Styles and scripts are files; unfold's one inline block of colours has the request's nonce. `unsafe-eval` is required
# by unfold's Alpine.js, which evaluates attributes of its templates; texts are escaped there.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF, UNSAFE_EVAL],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# The middleware answers 413 before a body is read; Django's own limits have the same value.
MAX_BODY_BYTES = ENVIRONMENT.max_body_bytes
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
FILE_UPLOAD_MAX_MEMORY_SIZE = MAX_BODY_BYTES
DATA_UPLOAD_MAX_NUMBER_FIELDS = 5000

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["memoryhub.auth.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["memoryhub.auth.authentication.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["memoryhub.api.fields.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_THROTTLE_CLASSES": ["memoryhub.auth.throttling.KeyRateThrottle"],
    "DEFAULT_THROTTLE_RATES": {"key": f"{ENVIRONMENT.throttle_per_minute}/minute"},
    "DEFAULT_SCHEMA_CLASS": "memoryhub.api.views.OperationSchema",
    "EXCEPTION_HANDLER": "drf_standardized_errors.handler.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "NON_FIELD_ERRORS_KEY": "body",
    "COERCE_DECIMAL_TO_STRING": False,
}
DRF_STANDARDIZED_ERRORS = {
    "EXCEPTION_HANDLER_CLASS": "memoryhub.api.errors.ProblemHandler",
    "EXCEPTION_FORMATTER_CLASS": "memoryhub.api.errors.ProblemFormatter",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "memoryhub",
    "DESCRIPTION": "A memory for LLM agents that people can curate. Errors are `application/problem+json`.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "PATH_CONVERTER_OVERRIDES": {"str": {"type": "string", "maxLength": 255}},
    # Choices shared by several fields, or of fields with equal names.
    "ENUM_NAME_OVERRIDES": {
        "MemoryKindEnum": "memoryhub.tenancy.namespaces.KINDS",
        "MemoryStatusEnum": ["active", "pending", "archived", "rejected"],
        "MemoryFeedChangeEnum": ["created", "changed", "superseded", "archived", "rejected", "erased"],
        "MemoryScopeEnum": ["project", "domain", "universal"],
        "MemorySourceEnum": ["education", "task", "manual", "extraction", "import"],
        "SleepRunStateEnum": ["running", "done", "undone"],
        "MergeStateEnum": ["proposed", "merged", "dismissed", "withdrawn", "undone"],
        "JobStateEnum": ["queued", "running", "done", "failed", "dead"],
        "EntryStatusEnum": ["active", "pending"],
        "ProjectStatusEnum": ["active", "archived", "deleted"],
        "MessageRoleEnum": ["user", "assistant", "system", "tool"],
        "NewMessageRoleEnum": ["user", "assistant", "system", "tool", "kana", "yuno"],
        "GeneratorEnum": ["llm", "extractive", "person"],
        "ProfileGeneratorEnum": ["llm", "person"],
        "RoutingActionEnum": ["route", "route_and_disclose", "ask", "propose_new"],
        "RoutingConfidenceEnum": ["high", "medium", "low"],
        "DocumentVersionKindEnum": "summaries.models.DOCUMENT_KINDS",
        "ProjectEventKindEnum": "summaries.models.EVENT_KINDS",
        "ContextFormatEnum": ["anthropic", "openai", "text"],
        "ImportFormatEnum": "memoryhub.importexport.foreign.formats.FORMATS",
        "WebhookStateEnum": ["active", "disabled"],
        "ImportStateEnum": "memoryhub.importexport.foreign.uploads.STATES",
        "BlockTypeEnum": "conversations.api.blocks.BLOCK_FIELDS",
        "SummaryGeneratorEnum": ["llm", "extractive"],
        "SummaryVerbEnum": ["write", "edit", "lock", "unlock", "restore", "delete"],
        "SleepTriggerEnum": ["api", "task", "schedule", "command", "curator"],
    },
}

# unfold's login page sends no `next`: without these, a direct login ends at a 404.
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": "memoryhub.logs.SafeJsonFormatter",
            "fmt": LINE,
            # Django adds the request object: its URL has users' ids and search texts.
            "reserved_attrs": [*RESERVED_ATTRS, "request"],
        },
        "plain": {"()": "memoryhub.logs.PlainFormatter", "fmt": LINE},
    },
    "filters": {
        "has_traceback": {"()": "django.utils.log.CallbackFilter", "callback": has_traceback},
        "without_traceback": {"()": "django.utils.log.CallbackFilter", "callback": without_traceback},
        "with_request_id": {"()": "django.utils.log.CallbackFilter", "callback": with_request_id},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": ENVIRONMENT.log_format,
            "filters": ["with_request_id"],
        }
    },
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django.request": {"filters": ["has_traceback"]},
        "django.security.DisallowedHost": {"filters": ["without_traceback"]},
        # httpx logs full URLs, and httpcore even headers.
        "httpx2": {"level": "WARNING"},
        "httpcore2": {"level": "WARNING"},
        "openai": {"level": "WARNING"},
        # Debug lines quote whole requests.
        "anthropic": {"level": "WARNING"},
        # Lines contain user names; the audit trail records logins.
        "axes": {"level": "ERROR"},
        # Logs errors of tool calls, which may repeat arguments.
        "mcp": {"level": "WARNING"},
        # Warns of each attempt to reach the collector of traces.
        "opentelemetry": {"level": "ERROR"},
        # Logs three lines per job, in addition to ours.
        "django-q": {"level": "WARNING"},
    },
}

MAIL = MailConfig.from_env(os.environ)
EMAIL_HOST, EMAIL_PORT = MAIL.host, MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = MAIL.user, MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL = MAIL.scheme == "smtp+tls", MAIL.scheme == "smtps"
EMAIL_TIMEOUT = TIMEOUT_SECONDS
DEFAULT_FROM_EMAIL = MAIL.sender

EMBEDDING = EmbeddingConfig.from_env(os.environ)
LLM = LLMConfig.from_env(os.environ)
# Variables that are set but have no effect; reported at start and by `manage.py doctor`.
INEFFECTIVE_SETTINGS = [
    *unknown_settings(os.environ),
    *ineffective_embedding_settings(os.environ),
    *ineffective_llm_settings(os.environ),
    *ineffective_trace_settings(os.environ),
]
PRICES = ENVIRONMENT.prices
IMPORT_TOKEN = ENVIRONMENT.import_token
# Public origin of the OAuth server for MCP clients; empty: off. Addresses in its answers never follow a Host header.
OAUTH_URL = ENVIRONMENT.oauth_url
# Networks inside that webhooks may be sent to, by http as well.
WEBHOOK_NETWORKS = [ip_network(word) for word in ENVIRONMENT.webhook_networks]

# The layers of an assembled context, in the order in which they are fetched.
CONTEXT_LAYERS = [
    "conversations.context_layers.working_memory",
    "strength.context_layers.pinned",
    "strength.context_layers.semantic",
    "strength.context_layers.profile",
    "summaries.context_layers.session_summary",
    "summaries.context_layers.project",
    "conversations.context_layers.recall",
]

# Days until receipts are deleted; 0: never.
RECEIPT_DAYS = ENVIRONMENT.receipt_days

# True if index rows are clustered by actor each night.
CLUSTER_TABLES = ENVIRONMENT.cluster_tables

# django-q2 with our table of jobs and our processes (`memoryhub.jobs.worker`). Its scheduler and queue are off, as a
# row in either would execute code. Each task's `timeout` is the deadline of its kind.
Q_CLUSTER = {
    "name": "memoryhub",
    "broker_class": "memoryhub.jobs.worker.JobBroker",
    "workers": 1,
    "queue_limit": 1,
    "timeout": 3600,
    "retry": 3601,
    "poll": 0.2,
    "recycle": 2000,
    "ack_failures": True,
    "save_limit": -1,
    "scheduler": False,
    "catch_up": False,
}

# All policies with values that an agent or a user may override; each key belongs to exactly one.
POLICIES = [
    "memoryhub.tenancy.policy.TrustPolicy",
    "memoryhub.tenancy.policy.SecretsPolicy",
    "memoryhub.tenancy.policy.ZonePolicy",
    "memoryhub.llm.usage.caps.BudgetPolicy",
    "memoryhub.llm.usage.caps.UserBudgetPolicy",
    "conversations.domain.policy.ContextPolicy",
    "conversations.domain.policy.SessionPolicy",
    "conversations.domain.policy.WritingPolicy",
    "conversations.domain.policy.RetentionPolicy",
    "conversations.domain.policy.ChatPolicy",
    "summaries.domain.policy.SummaryPolicy",
    "summaries.domain.policy.ProjectPolicy",
    "summaries.domain.policy.CompactionPolicy",
    "strength.domain.policy.SearchPolicy",
    "strength.domain.policy.StrengthPolicy",
    "strength.domain.policy.ReviewPolicy",
    "strength.domain.policy.ExtractionPolicy",
    "strength.domain.policy.ProfilePolicy",
]
